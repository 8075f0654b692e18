import type { Principal, SessionPrincipal } from "../auth/principal.ts";
import { fail, type Refusal } from "../error.ts";
import { teamNotFound } from "../teams/find-team.ts";
import type { MemberStore } from "../teams/member-store.ts";
import type { PreviewStore } from "../teams/preview-store.ts";
import { localOwner } from "./local-links.ts";
import { type HeaderLookup, isOwnHost, isSameOrigin } from "./request-guards.ts";
import type { ScreenAddress } from "./screen-address.ts";
import { createSessionCookie } from "./session-cookie.ts";
import type { Sessions } from "./sessions.ts";
import type { UserStore } from "./user-store.ts";

/** What a call with a session must pass. Each method resolves, or throws the refusal that ends the call. */
export interface SessionAccess {
  /** Whether the request names one of the screen's own hosts; others are answered 421 before anything else. */
  isOwnHost(header: HeaderLookup): boolean;
  /** Who is signed in, by the request's cookie alone. CROSS_SITE_REQUEST before the cookie's token is looked at. */
  authenticate(header: HeaderLookup): Promise<SessionPrincipal>;
  /**
   * PREVIEW_REQUIRED where the person has no preview access. An e-mail may have got a new owner since the session
   * began: where it is no longer this person's, the session is over for all that the e-mail gives.
   */
  requirePreview(principal: SessionPrincipal): Promise<void>;
  /** TEAM_NOT_FOUND, in the words for a team that does not exist, where it is not one of the person's own. */
  requireMember(principal: SessionPrincipal, teamId: string): Promise<void>;
  /** The person did something: the session is not idle. */
  noteActivity(principal: SessionPrincipal): Promise<void>;
  /** All of it again, for what was admitted and still runs. A service has no session to lose. */
  check(principal: Principal, teamId: string): Promise<void>;
  /** Calls the listener when the caller's session is ended here, until the returned function is called. */
  onSessionEnded(principal: Principal, listener: () => void): () => void;
}

/** Preview access and membership are read from the store at each call, so that who loses them loses them at once. */
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
    // The local owner has no issuer who could give the e-mail to somebody else.
    if (!user || (user.issuer !== localOwner.issuer && !(await users.isBound(user)))) throw sessionOver();
  }

  async function requireMember({ email }: SessionPrincipal, teamId: string): Promise<void> {
    if (!(await members.has(teamId, email))) throw teamNotFound(teamId);
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

/** A key or a token is the wrong kind of credential here; neither is read. */
function missing(header: HeaderLookup): Refusal {
  return header("authorization") === undefined ? fail("MISSING_CREDENTIAL") : fail("INVALID_CREDENTIAL");
}

function sessionOver(): Refusal {
  return fail("INVALID_CREDENTIAL", { problem: "You are signed out. Sign in again." });
}
