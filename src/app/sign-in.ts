import { randomBytes } from "node:crypto";
import { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import type { Clock } from "../base/clock.ts";
import type { ServiceSecrets } from "../keys/service-secrets.ts";
import type { WatchKeysParts } from "../keys/watch-keys.ts";
import type { Log } from "../log/log.ts";
import { type ServedService, served } from "../rpc/served.ts";
import type { Config } from "../settings/config.ts";
import type { HostAndPort } from "../settings/host.ts";
import { createOidcStateCookies } from "../sign-in/cookies.ts";
import { createLocalLinks, type LocalLinks } from "../sign-in/local-links.ts";
import { type ScreenAddress, type SignInMode, screenAddress, signInMode } from "../sign-in/screen-address.ts";
import { createSessionAccess, createSessionService, type SessionAccess } from "../sign-in/session-access.ts";
import { createSessions, type Sessions } from "../sign-in/sessions.ts";
import type { AccessOf, SignInMethod } from "../sign-in/sign-in-handler.ts";
import type { Stores } from "../store/stores.ts";
import type { Caches } from "./caches.ts";
import type { Membership } from "./membership.ts";

/** The parts of sign-in, wired. */
export interface SignIn {
  readonly mode: SignInMode;
  readonly sessions: Sessions;
  /** Undefined where sign-in is not local. */
  readonly links: LocalLinks | undefined;
  /** Both undefined where nobody can sign in. */
  readonly access: SessionAccess | undefined;
  readonly method: SignInMethod | undefined;
  readonly accessOf: AccessOf;
  readonly served: ServedService;
  /** For calls that were admitted with a session and still run. */
  readonly watchAccess: Pick<WatchKeysParts, "checkAccess" | "onSessionEnded">;
  /** Call it as soon as the public listener is bound, before a request can arrive. */
  bound(at: HostAndPort): void;
  /** Throws until `bound` was called. */
  readonly address: () => ScreenAddress;
}

export interface SignInParts {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Log;
  readonly stores: Stores;
  readonly caches: Caches;
  readonly membership: Membership;
  readonly secrets: ServiceSecrets;
  /** The screen belongs here, and is not built. */
  readonly isScreenMissing: boolean;
}

export async function createSignIn(parts: SignInParts): Promise<SignIn> {
  const { config, clock, log, stores, caches, membership } = parts;
  const { members, preview, users } = stores;
  const mode = signInMode(config);
  const { address, bound } = holdAddress(config);
  const sessions = createSessions({
    clock,
    store: stores.sessions,
    cache: caches.sessions,
    reread: caches.rereadSession,
    mayAdmit: membership.mayAdmit,
    changeSecurityState: membership.changeSecurityState,
    randomBytes,
    onSweepFailed: (err) =>
      log.warn({ err }, "sessions that are over could not be removed; the next sweep will"),
  });
  const links = mode === "local" ? createLocalLinks({ clock, randomBytes, address }) : undefined;
  const access = createSessionAccess({ address, sessions, preview, members, users });
  const service = createSessionService({
    address,
    sessions,
    teams: caches.teams,
    members,
    preview,
    links,
    mode,
    isScreenMissing: parts.isScreenMissing,
  });
  return {
    mode,
    sessions,
    links,
    access: mode === "off" ? undefined : access,
    method: links ? { kind: "local", links } : await oidcMethod(parts, address),
    async accessOf(email) {
      const [teamIds, hasPreview] = await Promise.all([members.teamIdsOf(email, 1), preview.has(email)]);
      return { isMember: teamIds.length > 0, hasPreview };
    },
    served: served(SessionService, service),
    watchAccess: { checkAccess: access.check, onSessionEnded: access.onSessionEnded },
    bound,
    address,
  };
}

/** No value of a key can be this text. */
const stateKeyText = "keyrun-sign-in-state:";

async function oidcMethod(
  { config, clock, stores, secrets }: SignInParts,
  address: () => ScreenAddress,
): Promise<SignInMethod | undefined> {
  const { oidc } = config;
  if (!oidc) return undefined;
  // Loaded only here: most of it is a library that nothing else needs.
  const [{ createOidc }, { createFindIssuer }] = await Promise.all([
    import("../sign-in/oidc.ts"),
    import("../sign-in/oidc-issuer.ts"),
  ]);
  // Made from the service secrets, so that any instance can end a sign-in that another began.
  const older = secrets.versions.slice(1).map((version) => secrets.digest(version, stateKeyText));
  const keys = [secrets.digestNewest(stateKeyText), ...older.filter((key) => key !== undefined)] as const;
  return {
    kind: "oidc",
    oidc: createOidc({
      findIssuer: createFindIssuer({ clock, oidc }),
      redirectUri: () => `${address().origin}/sign-in/callback`,
      users: stores.users,
      assumesVerified: oidc.assumeEmailVerified,
    }),
    stateCookies: () => createOidcStateCookies({ clock, keys, address: address() }),
  };
}

function holdAddress({ publicUrl }: Config) {
  let known: ScreenAddress | undefined;
  return {
    address: () => {
      if (!known) throw new Error("the public listener is not bound yet");
      return known;
    },
    bound: (at: HostAndPort) => {
      known = screenAddress({ publicUrl, bound: at });
    },
  };
}
