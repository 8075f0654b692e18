/**
 * Sessions, from the sign-in to their end: how one begins, is found by its token, is kept alive,
 * and is announced as ended.
 */

import { createHash } from "node:crypto";
import type { SessionPrincipal } from "../auth/principal.ts";
import { type Clock, createRepeatedWork } from "../base/clock.ts";
import type { RandomBytes } from "../base/ids.ts";
import { bounds } from "../bounds.ts";
import type { RecordSource } from "../cache/record-source.ts";
import type { ChangeSecurityState, FlooredChange } from "../fleet/security-state.ts";
import { Refusal, refuseFor } from "../refusal/refusal.ts";
import type { SessionRecord, SessionStore } from "./sign-in-store.ts";

/** The person who signed in, as the issuer identifies them. */
export type SignedInUser = Pick<SessionRecord, "issuer" | "subject" | "email">;

/**
 * The sessions of people. A session's id is the hash of its token, so it can't be used to sign in.
 * Whether a session is over is told only while this process `mayAdmit` requests; later `find`,
 * `userOf`, `isLive` and `noteActivity` throw UNAVAILABLE.
 */
export interface Sessions {
  /**
   * Begins a session and returns its token, the only copy of it. The session that the browser had
   * before, if any, is ended.
   */
  begin(user: SignedInUser, previousToken?: string): Promise<string>;
  /**
   * Returns the person that the token stands for; undefined if there is no such session or it is
   * over. This does not count as activity.
   */
  find(token: string): Promise<SessionPrincipal | undefined>;
  /** Returns the user who began the session; undefined if it is over. */
  userOf(sessionId: string): Promise<SignedInUser | undefined>;
  /** True if the session is not over. For calls that were admitted with it and still run. */
  isLive(sessionId: string): Promise<boolean>;
  /** Records that the person did something, so that the session is not idle. */
  noteActivity(sessionId: string): Promise<void>;
  /**
   * Ends the session. Once this has resolved, no later request is accepted for it. Repeating it is
   * no error.
   */
  end(sessionId: string): Promise<void>;
  /**
   * Calls the listener once, when the session is ended on this instance. The returned function
   * removes the listener.
   */
  onEnded(sessionId: string, listener: () => void): () => void;
  /**
   * Starts to remove expired sessions, a batch every `sweepMs`. The timer does not keep the process
   * alive.
   */
  start(): void;
  close(): Promise<void>;
}

export interface SessionsParts {
  readonly clock: Clock;
  readonly store: SessionStore;
  /** Above `store.find`; versions by `sessionVersionOf`. */
  readonly cache: RecordSource<SessionRecord>;
  /** Reads the session from the store, past the cache. The reads at once are bounded. */
  readonly reread: SessionStore["find"];
  /** Whether this process may admit at all: false once its lease of the store has lapsed. */
  readonly mayAdmit: () => boolean;
  readonly changeSecurityState: ChangeSecurityState<"session", FlooredChange<SessionRecord>>;
  readonly randomBytes: RandomBytes;
  /** Called with the cause when a sweep fails. The next sweep removes what is left. */
  readonly onSweepFailed: (cause: unknown) => void;
  readonly sweepMs?: number;
}

/**
 * All sessions have the same version. A floor above it ends the session, also for a read that has
 * not reached the cache yet.
 */
export const sessionVersionOf = () => liveVersion;
const liveVersion = 1;
const endedVersion = 2;

/**
 * Creates the sessions. A session lasts at most `sessionMsMax`, and `sessionIdleMsMax` after the
 * last activity: signing in, creating a key, revoking one. Requests that the screen sends by itself
 * (reading lists and limits, watching) do not count, so that an open page does not keep its session
 * for ever.
 */
export function createSessions(parts: SessionsParts): Sessions {
  const { clock, store, cache, mayAdmit, changeSecurityState, randomBytes } = parts;
  const { sweepMs = bounds.sessionSweepMs } = parts;
  const endings = createEndings();

  async function findLive(sessionId: string): Promise<SessionRecord | undefined> {
    const known = await cache.load(sessionId);
    // Another instance may have noted an activity since this copy was read. The read is not shared
    // with other requests: one that began before the session was ended would still find it.
    const isIdleCopy = known !== undefined && !hasExpired(known) && isIdle(known);
    const session = isIdleCopy ? await parts.reread(sessionId) : known;
    // The last step: what was read meanwhile may be out of date.
    if (!mayAdmit()) throw refuseFor("lease");
    return session && !hasExpired(session) && !isIdle(session) ? session : undefined;
  }

  const hasExpired = ({ expireTimeMs }: SessionRecord) => clock.unixMs() >= expireTimeMs;
  const isIdle = ({ lastActiveTimeMs }: SessionRecord) =>
    clock.unixMs() >= lastActiveTimeMs + bounds.sessionIdleMsMax;

  async function end(sessionId: string): Promise<void> {
    await changeSecurityState("session", () => store.delete(sessionId), ended(sessionId));
    endings.notify(sessionId);
  }

  /** Takes no right away: a session that is over is refused even while the store still has it. */
  async function sweep(): Promise<void> {
    const nowMs = clock.unixMs();
    const idleSinceMs = nowMs - bounds.sessionIdleMsMax;
    try {
      await store.deleteExpired({ nowMs, idleSinceMs, limit: bounds.sessionSweepMax });
    } catch (cause) {
      parts.onSweepFailed(cause);
    }
  }
  const sweeps = createRepeatedWork(sweep, sweepMs);

  return {
    async begin(user, previousToken) {
      const { token, hash } = newToken(randomBytes);
      const session = newSession(hash, user, clock.unixMs());
      const removed = await changeSecurityState(
        "session",
        () => store.insert(session, { perUserMax: bounds.sessionsPerUserMax }),
        (ids) => ids.map(ended),
      );
      for (const id of removed) endings.notify(id);
      const previousId = previousToken === undefined ? undefined : hashToken(previousToken);
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
      const value = { ...session, lastActiveTimeMs };
      // Another instance reads a session anew before it takes it for idle.
      const change = { id: sessionId, version: liveVersion, value, localOnly: true };
      const touched = changeSecurityState("session", () => store.touch(sessionId, lastActiveTimeMs), change);
      await touched.catch((thrown: unknown) => {
        // The activity may be a revocation, which a full disk must not stop. The session ends
        // earlier then.
        if (!(thrown instanceof Refusal && thrown.reason === "STORE_FULL")) throw thrown;
      });
    },
    end,
    onEnded: endings.on,
    start: sweeps.start,
    close: sweeps.stop,
  };
}

function ended(sessionId: string) {
  return { id: sessionId, version: endedVersion };
}

function newSession(idHash: string, { issuer, subject, email }: SignedInUser, nowMs: number): SessionRecord {
  const times = { createTimeMs: nowMs, lastActiveTimeMs: nowMs, expireTimeMs: nowMs + bounds.sessionMsMax };
  return { idHash, issuer, subject, email, ...times };
}

/** The listeners that wait for the end of a session. */
interface Endings {
  /** Adds a listener to the session's end. The returned function removes it. */
  on(sessionId: string, listener: () => void): () => void;
  /** Calls each listener of the session once, and removes them. */
  notify(sessionId: string): void;
}

function createEndings(): Endings {
  const listeners = new Map<string, Set<() => void>>();
  return {
    on(sessionId, listener) {
      const own = () => listener();
      const all = listeners.get(sessionId) ?? new Set();
      listeners.set(sessionId, all.add(own));
      return () => {
        all.delete(own);
        if (all.size === 0 && listeners.get(sessionId) === all) listeners.delete(sessionId);
      };
    },
    notify(sessionId) {
      const all = listeners.get(sessionId) ?? [];
      listeners.delete(sessionId);
      for (const listener of all) listener();
    },
  };
}

/** Nobody can guess a token of this length, so it is safe to store its plain hash. */
const tokenBytes = 32;
const tokenForm = /^[A-Za-z0-9_-]{43}$/;

/** Makes a new token of 256 random bits, base64url, and the hash of it to store. */
export function newToken(randomBytes: RandomBytes): { readonly token: string; readonly hash: string } {
  const token = Buffer.from(randomBytes(tokenBytes)).toString("base64url");
  return { token, hash: hashOf(token) };
}

/**
 * Returns the SHA-256 of a token, base64url, which may be stored. Undefined if the text does not
 * have the form of a token.
 */
export function hashToken(token: string): string | undefined {
  return tokenForm.test(token) ? hashOf(token) : undefined;
}

function hashOf(token: string): string {
  return createHash("sha256").update(token).digest("base64url");
}
