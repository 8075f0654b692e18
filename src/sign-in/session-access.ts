import type { Principal, SessionPrincipal } from "../auth/principal.ts";
import { fail, type Refusal } from "../refusal/refusal.ts";
import { teamNotFound } from "../teams/find-team.ts";
import type { MemberStore } from "../teams/member-store.ts";
import type { PreviewStore } from "../teams/preview-store.ts";
import { localOwner } from "./local-links.ts";
import { type HeaderLookup, isOwnHost, isSameOrigin } from "./request-guards.ts";
import type { ScreenAddress } from "./screen-address.ts";
import { createSessionCookie } from "./session-cookie.ts";
import type { Sessions, SignedInUser } from "./sessions.ts";
import type { UserStore } from "./user-store.ts";

/**
 * The checks of a call with a session. Each method that returns a promise resolves, or rejects with
 * the refusal of the call.
 */
export interface SessionAccess {
  /**
   * True if the request names one of the screen's own hosts. Other hosts get 421 before any other
   * check.
   */
  isOwnHost(header: HeaderLookup): boolean;
  /**
   * Returns the signed-in person by the request's cookie. CROSS_SITE_REQUEST comes before the token
   * is looked up.
   */
  authenticate(header: HeaderLookup): Promise<SessionPrincipal>;
  /**
   * Refuses with PREVIEW_REQUIRED if the person has no preview access. Refuses the session as over
   * if the e-mail has got a new owner since it began.
   */
  requirePreview(principal: SessionPrincipal): Promise<void>;
  /**
   * Refuses with TEAM_NOT_FOUND if the person is not a member, with the same words as for a team
   * that does not exist.
   */
  requireMember(principal: SessionPrincipal, teamId: string): Promise<void>;
  /** Records that the person did something, so that the session is not idle. */
  noteActivity(principal: SessionPrincipal): Promise<void>;
  /**
   * Repeats all checks for a call that was admitted and still runs. Other principals have no
   * session and always pass.
   */
  check(principal: Principal, teamId: string): Promise<void>;
  /**
   * Calls the listener when the caller's session is ended on this instance. The returned function
   * removes the listener.
   */
  onSessionEnded(principal: Principal, listener: () => void): () => void;
}

/**
 * Preview access and membership are read from the store at each call, so a person loses them at
 * once.
 */
export function createSessionAccess(parts: {
  readonly address: () => ScreenAddress;
  readonly sessions: Sessions;
  readonly preview: PreviewStore;
  readonly members: MemberStore;
  readonly users: UserStore;
}): SessionAccess {
  const { address, sessions, preview, members, users } = parts;

  async function requirePreview({ sessionId, email }: SessionPrincipal): Promise<void> {
    if (!(await preview.has(email))) throw fail("PREVIEW_REQUIRED");
    const user = await sessions.userOf(sessionId);
    // The local owner has no issuer, so the e-mail can't get another owner.
    if (!user || (user.issuer !== localOwner.issuer && !(await hasEmail(user)))) throw sessionOver();
  }

  /** Whether the e-mail is still this user's. */
  async function hasEmail({ email, issuer, subject }: SignedInUser): Promise<boolean> {
    const owner = await users.find(email);
    return owner?.issuer === issuer && owner.subject === subject;
  }

  async function requireMember({ email }: SessionPrincipal, teamId: string): Promise<void> {
    if (!(await members.find(teamId, email))) throw teamNotFound(teamId);
  }

  return {
    isOwnHost: (header) => isOwnHost(header, address()),
    async authenticate(header) {
      const cookie = createSessionCookie(address()).read(header("cookie"));
      if (cookie.kind === "missing") throw missing(header);
      if (!isSameOrigin(header, address())) throw fail("CROSS_SITE_REQUEST");
      if (cookie.kind === "ambiguous") throw fail("INVALID_CREDENTIAL", { problem: ambiguousWords });
      const principal = await sessions.find(cookie.value);
      if (!principal) throw sessionOver();
      return principal;
    },
    requirePreview,
    requireMember,
    noteActivity: ({ sessionId }) => sessions.noteActivity(sessionId),
    async check(principal, teamId) {
      if (principal.kind !== "session") return;
      if (!(await sessions.isLive(principal.sessionId))) throw sessionOver();
      await requirePreview(principal);
      await requireMember(principal, teamId);
    },
    onSessionEnded: (principal, listener) =>
      principal.kind === "session" ? sessions.onEnded(principal.sessionId, listener) : () => {},
  };
}

const ambiguousWords =
  "The session's cookie was sent twice. Remove this site's cookies in the browser, and sign in again.";

/** A key or a token is the wrong kind of credential here, so it is not checked. */
function missing(header: HeaderLookup): Refusal {
  return header("authorization") === undefined ? fail("MISSING_CREDENTIAL") : fail("INVALID_CREDENTIAL");
}

function sessionOver(): Refusal {
  return fail("INVALID_CREDENTIAL", { problem: "You are signed out. Sign in again." });
}
