import { randomBytes } from "node:crypto";
import { ServiceTokenService } from "#gen/keyrun/v1/service_token_service_pb.ts";
import { createServiceTokenCheck } from "../auth/instance-tokens.ts";
import type { VerifyServiceToken } from "../auth/require-service.ts";
import type { Clock } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import { currentRecords } from "../cache/record-source.ts";
import { createLastUses, type LastUses } from "../keys/last-uses.ts";
import type { ServiceSecrets } from "../keys/service-secrets.ts";
import type { WatchKeysParts } from "../keys/watch-keys.ts";
import type { Log } from "../log/log.ts";
import { StartRefused } from "../refusal/start-refused.ts";
import { type ServedService, served } from "../rpc/served.ts";
import { createServiceTokenService } from "../service-tokens/service-token-service.ts";
import { serviceTokenBounds } from "../service-tokens/service-token-store.ts";
import {
  createServiceTokenForm,
  createServiceTokens,
  createVerifyServiceToken,
  isNamedToken,
  type ServiceTokens,
} from "../service-tokens/service-tokens.ts";
import type { Stores } from "../store/stores.ts";
import type { Caches } from "./caches.ts";
import type { Membership } from "./membership.ts";

/** The tokens of internal services, wired. */
export interface ServiceAccess {
  readonly verify: VerifyServiceToken;
  readonly served: ServedService;
  readonly lastUses: LastUses;
  readonly leaveTeam: ServiceTokens["leaveTeam"];
  readonly check: WatchKeysParts["checkAccess"];
}

/** Throws StartRefused where the token of the settings is one that `service-tokens create` made. */
export function createServiceAccess(parts: {
  readonly serviceToken: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly stores: Stores;
  readonly caches: Caches;
  readonly membership: Membership;
  readonly secrets: ServiceSecrets;
}): ServiceAccess {
  const { serviceToken, clock, log, stores, caches, secrets } = parts;
  const { mayAdmit, changeSecurityState } = parts.membership;
  if (isNamedToken(serviceToken)) throw namedTokenRefused();
  const form = createServiceTokenForm(secrets);
  // An instance that may have missed a revocation accepts no token from memory.
  const evidence = currentRecords(caches.serviceTokens, mayAdmit);
  const lastUses = createLastUses({
    store: stores.serviceTokens,
    flushMs: bounds.lastUseFlushMs,
    onError: (err) => log.warn({ err }, "last uses could not be written; they are kept for the next write"),
    keysMax: serviceTokenBounds.cachedMax,
  });
  const tokens = createServiceTokens({
    clock,
    evidence,
    form,
    secrets,
    randomBytes,
    changeSecurityState,
    store: stores.serviceTokens,
    teams: currentRecords(caches.teams, mayAdmit),
    lastUseTimeMs: lastUses.lastUseTimeMs,
  });
  return {
    verify: createVerifyServiceToken({
      form,
      secrets,
      evidence,
      isLocal: createServiceTokenCheck(serviceToken),
      onUse: (tokenId) => lastUses.record(tokenId, clock.unixMs()),
    }),
    served: served(ServiceTokenService, createServiceTokenService({ tokens, log })),
    lastUses,
    leaveTeam: tokens.leaveTeam,
    check: tokens.check,
  };
}

/** The token would get the role admin, whatever its own role is. */
function namedTokenRefused(): StartRefused {
  return new StartRefused(
    "KEYRUN_SERVICE_TOKEN holds a token that `service-tokens create` made for one service. The server needs one of its own, with every right: `openssl rand -base64 32` makes one. Set the other only where that service or the command line runs.",
  );
}
