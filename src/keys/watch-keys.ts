import type { MessageInitShape } from "@bufbuild/protobuf";
import type { WatchKeysRequest, WatchKeysResponseSchema } from "#gen/keyrun/v1/key_service_pb.ts";
import type { Call, Principal } from "../auth/principal.ts";
import { bounds } from "../config.ts";
import { fail, Refusal, refusalFrom } from "../error.ts";
import { requireTeam, type TeamSource } from "../teams/find-team.ts";
import type { KeyEvent, KeyEvents, KeyWatch } from "./key-events.ts";
import { keyMessage } from "./key-message.ts";

export interface WatchKeysParts {
  readonly teams: TeamSource;
  readonly events: KeyEvents;
  /** Resolves while the caller may still watch the team; throws the refusal that ends the stream. */
  readonly checkAccess: (principal: Principal, teamId: string) => Promise<void>;
  /** Calls the listener when it is worth asking at once, until the returned function is called. */
  readonly onSessionEnded: (principal: Principal, listener: () => void) => () => void;
  readonly heartbeatMs?: number;
  readonly recheckMs?: number;
}

export type WatchKeys = (
  request: WatchKeysRequest,
  call: Call,
) => AsyncGenerator<MessageInitShape<typeof WatchKeysResponseSchema>>;

/**
 * `KeyService.WatchKeys`: first `opened`, then each change of the team's keys once, and a heartbeat whenever nothing
 * was sent for `heartbeatMs`. Who may watch is asked again every `recheckMs`, so that the stream ends within a second
 * once the session, the membership or the preview access is gone; watching keeps no session alive.
 */
export function createWatchKeys(parts: WatchKeysParts): WatchKeys {
  const { teams, events, heartbeatMs = bounds.keyWatchHeartbeatMs } = parts;
  return async function* ({ teamId }, call) {
    const team = await requireTeam(teams, teamId);
    const watch = events.watch(team.id);
    const stopChecking = keepChecking(parts, { principal: call.principal, teamId: team.id, watch });
    const leave = () => {
      stopChecking();
      watch.end(call.signal.reason instanceof Refusal ? call.signal.reason : fail("CANCELLED"));
    };
    // At once: a stream whose caller went away may never be pulled again.
    call.signal.addEventListener("abort", leave, { once: true });
    if (call.signal.aborted) leave();
    try {
      yield { event: { case: "opened", value: {} } };
      while (true) yield messageOf(await watch.next(heartbeatMs));
    } finally {
      leave();
      call.signal.removeEventListener("abort", leave);
    }
  };
}

function messageOf(event: KeyEvent | "quiet"): MessageInitShape<typeof WatchKeysResponseSchema> {
  if (event === "quiet") return { event: { case: "heartbeat", value: {} } };
  return { event: { case: event.kind, value: keyMessage(event.key) } };
}

/** One check after the other, so that a slow store is not asked more the slower it gets. */
function keepChecking(
  { checkAccess, onSessionEnded, recheckMs = bounds.keyWatchRecheckMs }: WatchKeysParts,
  { principal, teamId, watch }: { principal: Principal; teamId: string; watch: KeyWatch },
): () => void {
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;
  const check = async () => {
    try {
      await checkAccess(principal, teamId);
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
