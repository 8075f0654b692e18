import { randomBytes } from "node:crypto";
import { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import type { Clock } from "../clock.ts";
import type { Config } from "../config.ts";
import type { WatchKeysParts } from "../keys/watch-keys.ts";
import type { Log } from "../log.ts";
import { type ServedService, served } from "../rpc/served.ts";
import type { BoundAddress } from "../server/listener.ts";
import { createLocalLinks, type LocalLinks } from "../signin/local-links.ts";
import { createOidc } from "../signin/oidc.ts";
import { createFindIssuer } from "../signin/oidc-issuer.ts";
import { createOidcStateCookie } from "../signin/oidc-state-cookie.ts";
import { type ScreenAddress, type SignInMode, screenAddress, signInMode } from "../signin/screen-address.ts";
import { createSessionAccess, type SessionAccess } from "../signin/session-access.ts";
import { createSessionService } from "../signin/session-service.ts";
import { createSessions, type Sessions } from "../signin/sessions.ts";
import type { SignInMethod } from "../signin/sign-in-door.ts";
import type { Stores } from "../store/stores.ts";
import type { Caches } from "./caches.ts";

/** How people get in, wired. */
export interface SignIn {
  readonly mode: SignInMode;
  readonly sessions: Sessions;
  /** Undefined where sign-in is not local. */
  readonly links: LocalLinks | undefined;
  /** Both undefined where nobody can sign in. */
  readonly access: SessionAccess | undefined;
  readonly method: SignInMethod | undefined;
  readonly served: ServedService;
  /** For what was admitted and still runs. */
  readonly watchAccess: Pick<WatchKeysParts, "checkAccess" | "onSessionEnded">;
  /** To be told as soon as the public listener is bound, before it can have been asked anything. */
  bound(at: BoundAddress): void;
  readonly address: () => ScreenAddress;
}

export interface SignInParts {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Log;
  readonly stores: Stores;
  readonly caches: Caches;
}

export function createSignIn(parts: SignInParts): SignIn {
  const { config, clock, log, stores, caches } = parts;
  const { members, preview, users } = stores;
  const mode = signInMode(config);
  const { address, bound } = holdAddress(config);
  const sessions = createSessions({
    clock,
    store: stores.sessions,
    cache: caches.sessions,
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
  });
  return {
    mode,
    sessions,
    links,
    access: mode === "off" ? undefined : access,
    method: links ? { kind: "local", links } : oidcMethod(parts, address),
    served: served(SessionService, service),
    watchAccess: { checkAccess: access.check, onSessionEnded: access.onSessionEnded },
    bound,
    address,
  };
}

const stateKeyBytes = 32;

function oidcMethod(
  { config, clock, stores }: SignInParts,
  address: () => ScreenAddress,
): SignInMethod | undefined {
  const { oidc } = config;
  if (!oidc) return undefined;
  // Of this process: whoever is at the issuer's when it restarts signs in again.
  const key = randomBytes(stateKeyBytes);
  return {
    kind: "oidc",
    oidc: createOidc({
      findIssuer: createFindIssuer({ clock, oidc }),
      redirectUri: () => `${address().origin}/sign-in/callback`,
      users: stores.users,
    }),
    stateCookie: () => createOidcStateCookie({ clock, key, address: address() }),
  };
}

function holdAddress({ publicUrl }: Config) {
  let held: ScreenAddress | undefined;
  return {
    address: () => {
      if (!held) throw new Error("the public listener is not bound yet");
      return held;
    },
    bound: (at: BoundAddress) => {
      held = screenAddress({ publicUrl, bound: at });
    },
  };
}
