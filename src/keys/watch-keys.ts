/** `KeyService.WatchKeys`: a team's keys as they change, and when they are used. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { WatchKeysRequest, WatchKeysResponseSchema } from "#gen/keyrun/v1/key_service_pb.ts";
import type { Call, Principal } from "../auth/principal.ts";
import { type Clock, createRepeatedWork } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import type { RecordSource } from "../cache/record-source.ts";
import { fail, refusalFrom, refuseFor } from "../refusal/refusal.ts";
import { requireTeam, teamNotFound } from "../teams/find-team.ts";
import type { TeamRecord } from "../teams/team-store.ts";
import type { KeyEvent, KeyEvents, KeyWatch } from "./key-events.ts";
import { keyMessage } from "./key-message.ts";
import type { Keyring } from "./keyring.ts";

export interface WatchKeysParts {
  readonly teams: RecordSource<TeamRecord>;
  readonly events: KeyEvents;
  /**
   * False once this process would not learn of changes any more: its lease of the store is over.
   */
  readonly mayAdmit: () => boolean;
  /**
   * Resolves while the caller may still watch the team; throws the refusal that ends the stream.
   */
  readonly checkAccess: (principal: Principal, teamId: string) => Promise<void>;
  /**
   * Calls `listener` when the principal's session is ended on this instance, so that access is
   * checked at once. Returns the function that unsubscribes.
   */
  readonly onSessionEnded: (principal: Principal, listener: () => void) => () => void;
  readonly heartbeatMs?: number;
  readonly recheckMs?: number;
}

export type WatchKeys = (
  request: WatchKeysRequest,
  call: Call,
) => AsyncGenerator<MessageInitShape<typeof WatchKeysResponseSchema>>;

/**
 * `KeyService.WatchKeys`: first `opened`, then each change of the team's keys once, and a heartbeat
 * whenever nothing was sent for `heartbeatMs`. Access is checked again every `recheckMs`, so that
 * the stream ends within a second once the session, the membership, the preview access or the team
 * is gone, or this process may have missed a change. To watch keeps no session alive.
 */
export function createWatchKeys(parts: WatchKeysParts): WatchKeys {
  const { teams, events, heartbeatMs = bounds.keyWatchHeartbeatMs } = parts;
  return async function* ({ teamId }, call) {
    const team = await requireTeam(teams, teamId);
    if (!parts.mayAdmit()) throw refuseFor("lease");
    const watch = events.watch(team.id);
    const stopChecking = keepChecking(parts, { principal: call.principal, team, watch });
    const stop = () => {
      stopChecking();
      watch.end(call.signal.aborted ? call.signal.reason : fail("CANCELLED"));
    };
    // On abort, not on the next pull: a stream whose caller went away may never be pulled again.
    call.signal.addEventListener("abort", stop, { once: true });
    if (call.signal.aborted) stop();
    try {
      yield { event: { case: "opened", value: {} } };
      while (true) yield messageOf(await watch.next(heartbeatMs));
    } finally {
      stop();
      call.signal.removeEventListener("abort", stop);
    }
  };
}

function messageOf(event: KeyEvent | "quiet"): MessageInitShape<typeof WatchKeysResponseSchema> {
  if (event === "quiet") return { event: { case: "heartbeat", value: {} } };
  return { event: { case: event.kind, value: keyMessage(event.key) } };
}

/** One check at a time: a slow store must not get more checks the slower it is. */
function keepChecking(
  parts: WatchKeysParts,
  { principal, team, watch }: { principal: Principal; team: TeamRecord; watch: KeyWatch },
): () => void {
  const { checkAccess, onSessionEnded, recheckMs = bounds.keyWatchRecheckMs } = parts;
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;
  const check = async () => {
    try {
      await checkAccess(principal, team.id);
      await checkTeam(parts, team);
      if (!stopped) timer = setTimeout(check, recheckMs);
    } catch (thrown) {
      watch.end(refusalFrom(thrown));
    }
  };
  const unsubscribe = onSessionEnded(principal, check);
  timer = setTimeout(check, recheckMs);
  return () => {
    stopped = true;
    unsubscribe();
    clearTimeout(timer);
  };
}

/** Another instance may have deleted the team, and this one may not learn of changes any more. */
async function checkTeam(
  { teams, mayAdmit }: WatchKeysParts,
  { id, createTimeMs }: TeamRecord,
): Promise<void> {
  const team = await requireTeam(teams, id);
  // A new team got the id.
  if (team.createTimeMs !== createTimeMs) throw teamNotFound(id);
  if (!mayAdmit()) throw refuseFor("lease");
}

/** Tells those who watch a team when its keys are used, on whatever instance. */
interface WatchedUses {
  /** Starts to read uses. The timer does not keep the process alive. */
  start(): void;
  /** Waits for the read that runs. */
  close(): Promise<void>;
}

/**
 * Lists the newest active keys of each watched team every `readMs`, however many watch it, and
 * publishes those whose last use is later than the one that was seen before. A list that fails is
 * left out: the next read passes on what it would have.
 */
export function createWatchedUses(parts: {
  readonly clock: Clock;
  readonly events: Pick<KeyEvents, "publish" | "watchedTeams">;
  readonly list: Keyring["list"];
  readonly readMs?: number;
}): WatchedUses {
  const { clock, events, list, readMs = bounds.keyUsesCheckMs } = parts;
  /** The latest use that was seen of each team's keys, by key. */
  let seen = new Map<string, ReadonlyMap<string, number>>();

  async function readUses(): Promise<void> {
    const before = seen;
    seen = new Map();
    for (const teamId of events.watchedTeams()) {
      const known = before.get(teamId);
      seen.set(teamId, (await lookAt(teamId, known).catch(() => known)) ?? new Map());
    }
  }

  async function lookAt(
    teamId: string,
    known: ReadonlyMap<string, number> | undefined,
  ): Promise<ReadonlyMap<string, number>> {
    // A caller that began to watch since the last read may have read the list before these uses.
    const sinceMs = clock.unixMs() - bounds.keyUsesTellMs;
    const keys = await list({ teamId, limit: bounds.keyUsesWatchedMax, includeRevoked: false });
    const uses = new Map<string, number>();
    for (const key of keys) {
      const { id, lastUseTimeMs } = key;
      if (lastUseTimeMs === null) continue;
      uses.set(id, lastUseTimeMs);
      if (lastUseTimeMs > (known?.get(id) ?? sinceMs)) events.publish({ kind: "used", key });
    }
    return uses;
  }

  const reads = createRepeatedWork(readUses, readMs);
  return { start: reads.start, close: reads.stop };
}
