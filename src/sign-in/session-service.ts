import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import type { Principal, SessionPrincipal } from "../auth/principal.ts";
import type { ServiceMethods } from "../auth/service-methods.ts";
import { bounds } from "../bounds.ts";
import type { RecordSource } from "../cache/record-source.ts";
import { fail } from "../refusal/refusal.ts";
import type { MemberStore } from "../teams/member-store.ts";
import type { PreviewStore } from "../teams/preview-store.ts";
import { teamMessage } from "../teams/team-message.ts";
import type { TeamRecord } from "../teams/team-store.ts";
import type { LocalLinks } from "./local-links.ts";
import type { ScreenAddress, SignInMode } from "./screen-address.ts";
import { createSessionCookie } from "./session-cookie.ts";
import type { Sessions } from "./sessions.ts";

export interface SessionServiceParts {
  readonly address: () => ScreenAddress;
  readonly sessions: Sessions;
  readonly teams: RecordSource<TeamRecord>;
  readonly members: MemberStore;
  readonly preview: PreviewStore;
  /** Undefined if sign-in is not local. */
  readonly links: LocalLinks | undefined;
  readonly mode: SignInMode;
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

/** Explains to the operator why people can't sign in. */
export const signInOffWords =
  "The screen and sign-in are off, because no identity provider is configured, and sign-in links need the embedded store and an address that no other machine can reach: " +
  "set KEYRUN_PUBLIC_URL, KEYRUN_OIDC_ISSUER, KEYRUN_OIDC_CLIENT_ID and KEYRUN_OIDC_CLIENT_SECRET, " +
  "or use the embedded store with KEYRUN_HOST at a loopback address.";
