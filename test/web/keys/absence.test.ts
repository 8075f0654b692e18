import { expect, test } from "vitest";
import { GetSessionResponseSchema } from "#gen/keyrun/v1/session_service_pb.ts";
import { failureOf } from "../../../web/api/failure.ts";
import { RpcError } from "../../../web/api/rpc-error.ts";
import { absenceOf } from "../../../web/keys/absence.ts";
import { sent } from "../sent-message.ts";

test("a team that does not exist looks like one that the person is not in", () => {
  expect(absenceOf("acme", session({ teams: ["demo"] }), null)).toBe("team");
  expect(absenceOf("demo", session({ teams: ["demo"] }), refused("not_found", "TEAM_NOT_FOUND"))).toBe(
    "team",
  );
});

test("without preview access nothing is said about the team", () => {
  expect(absenceOf("acme", session({ teams: ["demo"], previewAccess: false }), null)).toBe("preview");
  expect(absenceOf("demo", undefined, refused("permission_denied", "PREVIEW_REQUIRED"))).toBe("preview");
});

test("nothing is absent before an answer says so, nor because of another failure", () => {
  expect(absenceOf("demo", undefined, null)).toBeNull();
  expect(absenceOf("demo", session({ teams: ["demo"] }), refused("unavailable", "UNAVAILABLE"))).toBeNull();
});

function session({ teams, previewAccess = true }: { teams: string[]; previewAccess?: boolean }) {
  return sent(GetSessionResponseSchema, { previewAccess, teams: teams.map((id) => ({ id })) });
}

function refused(code: string, reason: string) {
  return failureOf(new RpcError({ code, reason }));
}
