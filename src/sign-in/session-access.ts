/** What a session may do: the checks of a call, and `SessionService`. */

import { dirname } from "node:path";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import type { Principal, ServiceMethods, SessionPrincipal } from "../auth/principal.ts";
import { programPath } from "../base/program.ts";
import { bounds } from "../bounds.ts";
import type { RecordSource } from "../cache/record-source.ts";
import { fail, type Refusal } from "../refusal/refusal.ts";
import { teamNotFound } from "../teams/find-team.ts";
import { teamMessage } from "../teams/team-service.ts";
import type { MemberStore, PreviewStore, TeamRecord } from "../teams/team-store.ts";
import { createSessionCookie } from "./cookies.ts";
import { type LocalLinks, localOwner } from "./local-links.ts";
import type { ScreenAddress, SignInMode } from "./screen-address.ts";
import type { Sessions, SignedInUser } from "./sessions.ts";
import { type HeaderLookup, isOwnHost, isSameOrigin } from "./sign-in-handler.ts";
import type { UserStore } from "./sign-in-store.ts";

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

interface SessionServiceParts {
  readonly address: () => ScreenAddress;
  readonly sessions: Sessions;
  readonly teams: RecordSource<TeamRecord>;
  readonly members: MemberStore;
  readonly preview: PreviewStore;
  /** Undefined if sign-in is not local. */
  readonly links: LocalLinks | undefined;
  readonly mode: SignInMode;
  /** A link would lead nowhere. */
  readonly isScreenMissing: boolean;
}

/**
 * Creates `keyrun.v1.SessionService`: the signed-in person, signing out, and one-time links for the
 * owner.
 */
export function createSessionService(parts: SessionServiceParts): ServiceMethods<typeof SessionService> {
  const { address, sessions, links } = parts;
  return {
    async getSession(_request, { principal }) {
      const { email } = person(principal);
      const [previewAccess, teams] = await Promise.all([parts.preview.has(email), teamsOf(parts, email)]);
      return { email, previewAccess, teams: teams.map(teamMessage) };
    },
    async signOut(_request, { principal, responseHeaders }) {
      await sessions.end(person(principal).sessionId);
      responseHeaders.append("set-cookie", createSessionCookie(address()).clear());
      return {};
    },
    async createSignInLink() {
      if (!links) throw localSignInOff(parts);
      if (parts.isScreenMissing) throw fail("LOCAL_SIGN_IN_OFF", { problem: screenMissingWords });
      const { url, expireTimeMs } = links.create();
      return { url, expireTime: timestampFromMs(expireTimeMs) };
    },
  };
}

function person(principal: Principal): SessionPrincipal {
  if (principal.kind === "session") return principal;
  throw fail("INVALID_CREDENTIAL");
}

async function teamsOf({ members, teams }: SessionServiceParts, email: string) {
  const ids = await members.teamIdsOf(email, bounds.sessionTeamsMax);
  const found = await Promise.all(ids.map((id) => teams.load(id)));
  return found.filter((team) => team !== undefined);
}

function localSignInOff({ address, mode }: SessionServiceParts) {
  if (mode === "off") return fail("LOCAL_SIGN_IN_OFF", { problem: signInOffWords });
  return fail("LOCAL_SIGN_IN_OFF", { metadata: { sign_in_url: `${address().origin}/sign-in` } });
}

/** Where npm left out the packages that build the screen, as in production, a clone has none. */
export const screenMissingWords = `The screen is not built: run \`npm ci --include=dev\` in ${dirname(programPath)}, which builds it, and start Keyrun again.`;

/** Explains to the operator why people can't sign in. */
export const signInOffWords =
  "The screen and sign-in are off, because no identity provider is configured, and sign-in links need the embedded store and an address that no other machine can reach: " +
  "set KEYRUN_PUBLIC_URL, KEYRUN_OIDC_ISSUER, KEYRUN_OIDC_CLIENT_ID and KEYRUN_OIDC_CLIENT_SECRET, " +
  "or use the embedded store with KEYRUN_HOST at a loopback address.";
