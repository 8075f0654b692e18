import type { SessionPrincipal } from "../auth/principal.ts";
import type { FlooredCache } from "../cache/floored-cache.ts";
import type { Clock } from "../clock.ts";
import { bounds } from "../config.ts";
import type { RandomBytes } from "../keys/key-value.ts";
import { hashToken, newToken } from "./opaque-token.ts";
import { createEndings } from "./session-endings.ts";
import type { SessionRecord, SessionStore } from "./session-store.ts";

/** Who signed in, as the issuer says. */
export type SignedInUser = Pick<SessionRecord, "issuer" | "subject" | "email">;

/** The sessions of people. A session's id is the hash of its token: it opens nothing. */
export interface Sessions {
  /**
   * Begins a session and answers with its token, the only copy there will ever be. Always a new one: the session that
   * the browser had before, if any, is over.
   */
  begin(user: SignedInUser, previousToken?: string): Promise<string>;
  /** The person that the token stands for; undefined where it stands for nobody, or no longer. Reading is no activity. */
  find(token: string): Promise<SessionPrincipal | undefined>;
  /** Who began the session; undefined where it is over. */
  userOf(sessionId: string): Promise<SignedInUser | undefined>;
  /** Whether the session goes on: for what was admitted by it and still runs. */
  isLive(sessionId: string): Promise<boolean>;
  /** Notes that the person did something, so that the session is not idle. */
  noteActivity(sessionId: string): Promise<void>;
  /** Ends the session: no request sent after this resolved is taken for it. Repeating it is no error. */
  end(sessionId: string): Promise<void>;
  /** Calls the listener once, when the session is ended here, until the returned function is called. */
  onEnded(sessionId: string, listener: () => void): () => void;
  /** Starts to remove sessions that are over, a batch every `sweepMs`; the timer keeps no process alive. */
  start(): void;
  close(): Promise<void>;
}

export interface SessionsParts {
  readonly clock: Clock;
  readonly store: SessionStore;
  /** Above `store.find`; versions by `sessionVersionOf`. */
  readonly cache: FlooredCache<SessionRecord>;
  readonly randomBytes: RandomBytes;
  /** Told why a sweep failed; the next one does its work. */
  readonly onSweepFailed: (cause: unknown) => void;
  readonly sweepMs?: number;
}

/** Every session is of one version; a floor above it ends the session, in the cache and on the way to it. */
export const sessionVersionOf = () => liveVersion;
const liveVersion = 1;
const endedVersion = 2;

/**
 * A session lasts `sessionMsMax` at the most, and `sessionIdleMsMax` from the last activity: signing in, creating a
 * key, revoking one. What the screen does by itself (reading lists and limits, watching) is no activity, so that a
 * page that was left open does not keep its session for ever.
 */
export function createSessions(parts: SessionsParts): Sessions {
  const { clock, store, cache, randomBytes, sweepMs = bounds.sessionSweepMs } = parts;
  const endings = createEndings();
  let sweeper: NodeJS.Timeout | undefined;
  let sweeping: Promise<void> | undefined;

  async function findLive(sessionId: string): Promise<SessionRecord | undefined> {
    const session = await cache.load(sessionId);
    return session && !isOver(session, clock.unixMs()) ? session : undefined;
  }

  /** After the durable write: from here on nobody is let in by what was read before. */
  function close(sessionId: string): void {
    cache.raise(sessionId, endedVersion);
    endings.tell(sessionId);
  }

  async function end(sessionId: string): Promise<void> {
    await store.delete(sessionId);
    close(sessionId);
  }

  async function sweep(): Promise<void> {
    const nowMs = clock.unixMs();
    const idleSinceMs = nowMs - bounds.sessionIdleMsMax;
    try {
      await store.deleteExpired({ nowMs, idleSinceMs, limit: bounds.sessionSweepMax });
    } catch (cause) {
      parts.onSweepFailed(cause);
    }
  }

  return {
    async begin(user, previousToken) {
      const token = newToken(randomBytes);
      const { removed, previousId } = await insert(parts, user, { token, previousToken });
      removed.forEach(close);
      if (previousId !== undefined) await end(previousId);
      return token;
    },
    async find(token) {
      const id = hashToken(token);
      const session = id === undefined ? undefined : await findLive(id);
      return session && { kind: "session", sessionId: session.idHash, email: session.email };
    },
    userOf: findLive,
    isLive: async (sessionId) => (await findLive(sessionId)) !== undefined,
    async noteActivity(sessionId) {
      const session = await findLive(sessionId);
      if (!session) return;
      const lastActiveTimeMs = Math.max(session.lastActiveTimeMs, clock.unixMs());
      await store.touch(sessionId, lastActiveTimeMs);
      cache.raise(sessionId, liveVersion, { ...session, lastActiveTimeMs });
    },
    end,
    onEnded: endings.on,
    start() {
      sweeper ??= setInterval(() => {
        sweeping ??= sweep().finally(() => {
          sweeping = undefined;
        });
      }, sweepMs).unref();
    },
    async close() {
      clearInterval(sweeper);
      await sweeping;
    },
  };
}

function isOver({ expireTimeMs, lastActiveTimeMs }: SessionRecord, nowMs: number): boolean {
  return nowMs >= expireTimeMs || nowMs >= lastActiveTimeMs + bounds.sessionIdleMsMax;
}

async function insert(
  { clock, store }: SessionsParts,
  user: SignedInUser,
  tokens: { token: string; previousToken: string | undefined },
) {
  const idHash = hashToken(tokens.token);
  if (idHash === undefined) throw new Error("A new token has not a token's form.");
  const { issuer, subject, email } = user;
  const nowMs = clock.unixMs();
  const times = { createTimeMs: nowMs, lastActiveTimeMs: nowMs, expireTimeMs: nowMs + bounds.sessionMsMax };
  const session = { idHash, issuer, subject, email, ...times };
  const removed = await store.insert(session, { perUserMax: bounds.sessionsPerUserMax });
  const previousId = tokens.previousToken === undefined ? undefined : hashToken(tokens.previousToken);
  return { removed, previousId };
}
