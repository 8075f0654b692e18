/** The two listeners: what each serves, and to whom. */

import { randomBytes } from "node:crypto";
import type { DescMethod } from "@bufbuild/protobuf";
import { Health } from "#gen/grpc/health/v1/health_pb.ts";
import { ServerReflection } from "#gen/grpc/reflection/v1/reflection_pb.ts";
import { ServerReflection as ServerReflectionV1Alpha } from "#gen/grpc/reflection/v1alpha/reflection_pb.ts";
import type { AddressAllowanceView, Admit, Load } from "../admission/admission.ts";
import { unguarded } from "../auth/key-evidence.ts";
import {
  credentialOf,
  isActivity,
  isShed,
  type ListenerName,
  requestBytesMaxOf,
  roleOf,
} from "../auth/policy.ts";
import type { Call } from "../auth/principal.ts";
import type { VerifyServiceToken } from "../auth/require-service.ts";
import type { Clock } from "../base/clock.ts";
import { createRequestIds } from "../base/ids.ts";
import { bounds } from "../bounds.ts";
import { type HttpHandler, type Mount, untilEnded } from "../http/handler.ts";
import type { Outcomes } from "../http/outcomes.ts";
import { createAddressAllowance } from "../limit/address-allowance.ts";
import type { ByteBudget } from "../limit/byte-budget.ts";
import type { Log } from "../log/log.ts";
import type { Entry, Metrics } from "../metrics/metrics.ts";
import { createMetricsHandler } from "../rest/operations-handler.ts";
import type { AuditCalls } from "../rpc/audit/audit-calls.ts";
import { createAuthenticate, type RpcPolicy } from "../rpc/authenticate.ts";
import { createHealth, type Readiness } from "../rpc/health.ts";
import { createReflection } from "../rpc/reflection.ts";
import { createRpcHandler } from "../rpc/rpc-handler.ts";
import type { FindRpc } from "../rpc/rpc-parts.ts";
import { isConversation, rpcsOf, type ServedService, served } from "../rpc/served.ts";
import type { RequestTracker } from "../server/drain.ts";
import { createServe, type Serve, type ServeOptions } from "../server/exchange/exchange.ts";
import { createListener, type Listener, type ListenerOptions } from "../server/listener.ts";
import { type Report, transportLimits } from "../server/transport.ts";
import type { UnreadAnswers } from "../server/unread-answers.ts";
import type { Config } from "../settings/config.ts";
import type { TlsFiles } from "../settings/tls-files.ts";
import type { SessionAccess } from "../sign-in/session-access.ts";
import { meterLookUps } from "./meters.ts";
import type { RequestObservers } from "./request-observers.ts";

/** What both listeners need. */
export interface ListenersParts {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly outcomes: Outcomes;
  readonly observers: RequestObservers;
  readonly requests: RequestTracker;
  readonly unread: UnreadAnswers;
  readonly bytes: ByteBudget;
  readonly admit: Admit;
  readonly load: Load;
  readonly audit: AuditCalls;
  readonly verifyServiceToken: VerifyServiceToken;
  readonly isInstanceToken: (presented: string) => boolean;
  /** Undefined where nobody can sign in. */
  readonly sessions: SessionAccess | undefined;
}

/** The public listener: REST, the screen, `/healthz` and its like, and the RPCs of the public. */
export function createPublicListener(
  parts: ListenersParts & {
    readonly services: readonly ServedService[];
    readonly handler: MakePublicHandler;
  },
): Listener {
  const { config, clock, metrics, outcomes } = parts;
  const addressAllowance = createAddressAllowance({
    clock,
    windowMs: bounds.limitWindowMs,
    lookupsMax: bounds.addressLookupsMax,
    logsMax: bounds.addressLogsMax,
    waitMsMax: bounds.lookupWaitMsMax,
    waitersMax: bounds.lookupWaitersMax,
  });
  const allowance: AddressAllowanceView = {
    guard: meterLookUps(
      (address, lookUp) => addressAllowance.lookUp(address, lookUp, ({ kind }) => kind === "valid"),
      metrics,
    ),
    snapshot: addressAllowance.snapshot,
  };
  const { serve, options } = listenerBasis(parts, "rest");
  const handler = parts.handler({ allowance, outcomes });
  const findRpc = createRpcs(parts, { listener: "public", allowance });
  return createListener({
    ...options,
    connectionsPerAddressMax: config.connectionsPerAddressMax,
    unprovenStreamsMax: bounds.unprovenStreamsMax,
    isConversation: isConversation(parts.services),
    onRequest: dispatch(findRpc, { http: handler, serve, observers: parts.observers }),
  });
}

/** Makes the public listener's HTTP handler from what the listener knows. */
export type MakePublicHandler = (basis: {
  readonly allowance: AddressAllowanceView;
  readonly outcomes: Outcomes;
}) => HttpHandler;

/** The listener for internal services: every RPC, health, reflection and `/metrics`. */
export function createInternalListener(
  parts: ListenersParts & {
    readonly services: readonly ServedService[];
    readonly tls: TlsFiles | undefined;
  },
): Listener {
  const { metrics, audit, verifyServiceToken, tls } = parts;
  const { serve, options } = listenerBasis(parts, "grpc");
  const handler = createMetricsHandler({ metrics, verifyServiceToken, onUnproven: audit.wrongToken });
  // Its callers are internal services: no address has an allowance.
  const allowance: AddressAllowanceView = { guard: unguarded, snapshot: () => undefined };
  const findRpc = createRpcs(parts, { listener: "internal", allowance });
  return createListener({
    ...options,
    connectionsPerAddressMax: undefined,
    tls,
    isConversation: isConversation(parts.services),
    onRequest: dispatch(findRpc, { http: handler, serve, observers: parts.observers }),
  });
}

function listenerBasis(parts: ListenersParts, entry: Entry) {
  const { config, clock, log, outcomes, requests, unread, bytes, observers } = parts;
  const newRequestId = createRequestIds(randomBytes);
  const { trustProxyHops, connectionsMax, keepAliveMs } = config;
  const basis = { clock, requests, outcomes, newRequestId, report: createTransportLog(log) };
  return {
    serve: createServe({ ...basis, bytes, trustProxyHops } satisfies ServeOptions),
    options: {
      ...basis,
      entry,
      connectionsMax,
      limits: { ...transportLimits, keepAliveMs },
      unread,
      watch: observers.watch,
    } satisfies Partial<ListenerOptions>,
  };
}

/** The RPCs of a listener. Only the public one reads sessions. */
function createRpcs(
  parts: ListenersParts & { services: readonly ServedService[] },
  { listener, allowance }: { readonly listener: ListenerName; readonly allowance: AddressAllowanceView },
): FindRpc {
  const { config, clock, outcomes, services, sessions } = parts;
  const { admit, load, audit, verifyServiceToken, isInstanceToken } = parts;
  const policy: RpcPolicy = {
    credentialOf: (method) => credentialOf(method, listener),
    requestBytesMaxOf,
    roleOf,
    readsSessions: listener === "public",
    isActivity,
    isShed,
  };
  const authenticate = createAuthenticate({
    policy,
    admit,
    load,
    allowance,
    verifyServiceToken,
    isInstanceToken,
    sessions,
  });
  const isForServices = (method: DescMethod) => policy.credentialOf(method) === "service";
  return createRpcHandler({
    rpcs: rpcsOf(services),
    policy,
    authenticate: audit.authenticate(authenticate, isForServices),
    audit,
    sessions,
    allowance,
    clock,
    messageBytesMax: config.bodyBytesMax,
    needsConnectVersion: listener === "public",
    outcomes,
  });
}

/** RPCs to their own handlers, all else to the HTTP handler. No RPC has a path below /api/. */
function dispatch(
  findRpc: FindRpc,
  { http, serve, observers }: { http: HttpHandler; serve: Serve; observers: RequestObservers },
): ListenerOptions["onRequest"] {
  const httpMount: Mount = { handler: http, entry: "rest", refusalForm: "json" };
  return (incoming) => {
    const { head } = incoming;
    const mount = (!head.target.startsWith("/api/") && findRpc(head)) || httpMount;
    serve(observers.mount?.(mount) ?? mount, incoming);
  };
}

/**
 * Health and reflection, for Keyrun's own services. Their streams end when `streamsEnd` aborts: a
 * stream that waits for its caller would delay a drain to its end.
 */
export function operationServices(
  ownServices: readonly ServedService[],
  { readiness, streamsEnd }: { readiness: Readiness; streamsEnd: AbortSignal },
) {
  const own = ownServices.map(({ service }) => service);
  const reflection = createReflection([...own, Health, ServerReflection, ServerReflectionV1Alpha]);
  const serviceNames = own.map(({ typeName }) => typeName);
  const health = createHealth({ serviceNames, readiness, watchersMax: bounds.healthWatchersMax });
  const ends =
    <Request, Answer>(open: (request: Request, call: Call) => AsyncIterable<Answer>) =>
    (request: Request, call: Call) =>
      untilEnded(open(request, call), streamsEnd);
  return [
    served(Health, { ...health, watch: ends(health.watch) }),
    served(ServerReflection, { serverReflectionInfo: ends(reflection.v1.serverReflectionInfo) }),
    served(ServerReflectionV1Alpha, { serverReflectionInfo: ends(reflection.v1alpha.serverReflectionInfo) }),
  ];
}

/**
 * Writes events of connections to the log. Events that any stranger can cause are `debug`, so that
 * they can't fill the disk.
 */
function createTransportLog(log: Log): Report {
  return (event) => {
    if (event.kind === "untrusted_forwarded_for") log.warn(event, untrustedWords);
    else if (event.kind === "unread_forwarded_for") log.warn(event, unreadWords);
    else if (event.kind === "listener_failed") log.error(event, event.kind);
    else log.debug(event, event.kind);
  };
}

const untrustedWords =
  "X-Forwarded-For arrives, but no proxy is trusted, so all callers behind it count as one address. " +
  "Set KEYRUN_TRUST_PROXY to the number of proxies in front of Keyrun.";

const unreadWords =
  "the entry of X-Forwarded-For that KEYRUN_TRUST_PROXY trusts is no IP address, so its callers have the proxy's. " +
  "Let the proxy write the caller's address there, and set KEYRUN_TRUST_PROXY to the number of proxies.";
