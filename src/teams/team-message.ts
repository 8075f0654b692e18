import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type TeamSchema, TeamState } from "#gen/keyrun/v1/team_pb.ts";
import { planNumber } from "./plan-message.ts";
import type { TeamRecord } from "./team-store.ts";

/** A stored team as callers see it. */
export function teamMessage(team: TeamRecord): MessageInitShape<typeof TeamSchema> {
  const { id, displayName, createTimeMs } = team;
  return {
    id,
    displayName,
    plan: planNumber(team.plan),
    createTime: timestampFromMs(createTimeMs),
    state: team.state === "active" ? TeamState.ACTIVE : TeamState.ENDING,
  };
}
