import { createHash } from "node:crypto";
import type { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import type { ServiceMethods } from "../auth/service-methods.ts";
import { ownTurn } from "../base/own-turn.ts";
import { cutPage, readPage, readPlace, writePlace } from "../base/page.ts";
import { bounds } from "../bounds.ts";
import type { RecordSource } from "../cache/record-source.ts";
import { requireTeam } from "../teams/find-team.ts";
import type { TeamRecord } from "../teams/team-store.ts";
import { keyMessage } from "./key-message.ts";
import { keyMatchOf } from "./key-query.ts";
import type { KeyCursor, KeyMatch, KeyRecord } from "./key-store.ts";
import type { Keyring } from "./keyring.ts";

export interface ListKeysParts {
  readonly keyring: Pick<Keyring, "list" | "placeOf" | "countActive" | "countRevoked">;
  readonly teams: RecordSource<TeamRecord>;
  readonly keysPerTeamMax: number;
  readonly keyPrefix: string;
}

/** `KeyService.ListKeys`. */
export function createListKeys(parts: ListKeysParts): ServiceMethods<typeof KeyService>["listKeys"] {
  const { keyring, teams, keysPerTeamMax, keyPrefix } = parts;
  return async ({ teamId, query, showRevoked, ...request }) => {
    const team = await requireTeam(teams, teamId);
    const match = keyMatchOf(query, keyPrefix);
    const scope = scopeOf(team.id, showRevoked, match);
    const page = readPage(request, scope);
    const list = {
      teamId: team.id,
      limit: page.limit + 1,
      ...(page.after !== undefined && { after: readCursor(page.after) }),
      includeRevoked: showRevoked,
    };
    // To count the keys of a large team takes milliseconds.
    await ownTurn();
    // First, because it marks keys whose expiry has come.
    const activeKeyCount = await keyring.countActive(team.id);
    const [{ found, stoppedAt }, revokedKeyCount] = await Promise.all([
      search(keyring, list, match),
      keyring.countRevoked(team.id, bounds.revokedKeysCountedMax),
    ]);
    const { items, nextPageToken } = cutPage(
      found,
      page,
      scope,
      writeCursor,
      stoppedAt && writeCursor(stoppedAt),
    );
    return {
      keys: items.map(keyMessage),
      nextPageToken,
      activeKeyCount,
      activeKeyCountMax: keysPerTeamMax,
      revokedKeyCount,
    };
  };
}

/**
 * Searches step by step, because a step of the embedded store holds up the whole process. After
 * `keySearchStepsMax` of them it stops, and says where: the next page goes on from there.
 */
async function search(
  keyring: ListKeysParts["keyring"],
  { limit, ...query }: Parameters<Keyring["list"]>[0],
  match: KeyMatch | undefined,
): Promise<{ found: KeyRecord[]; stoppedAt?: KeyCursor }> {
  if (!match) return { found: await keyring.list({ ...query, limit }) };
  const found: KeyRecord[] = [];
  let { after } = query;
  for (let step = 0; step < bounds.keySearchStepsMax; step++) {
    if (step > 0) await ownTurn();
    const from = { ...query, ...(after && { after }) };
    const until = await keyring.placeOf(bounds.keysSearchedAtOnce, from);
    const rest = limit - found.length;
    found.push(...(await keyring.list({ ...from, limit: rest, ...(until && { until }), match })));
    if (found.length >= limit || !until) return { found };
    after = until;
  }
  return { found, ...(after && { stoppedAt: after }) };
}

/** A token is bound to what the query means. It holds a digest, and so never the query's text. */
function scopeOf(teamId: string, showRevoked: boolean, match: KeyMatch | undefined): string {
  const scope = `keys:${teamId}:${showRevoked}`;
  if (!match) return scope;
  const { labelPart, idStart, redactedPart } = match;
  const meaning = JSON.stringify([labelPart ?? null, idStart ?? null, redactedPart ?? null]);
  return `${scope}:${createHash("sha256").update(meaning).digest("base64url").slice(0, 22)}`;
}

function writeCursor({ createTimeMs, id }: KeyCursor): string {
  return writePlace({ timeMs: createTimeMs, id });
}

function readCursor(after: string): KeyCursor {
  const { timeMs, id } = readPlace(after);
  return { createTimeMs: timeMs, id };
}
