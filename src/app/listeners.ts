import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { unguarded } from "../auth/key-evidence.ts";
import type { Listener as ListenerName } from "../auth/policy.ts";
import type { Clock } from "../clock.ts";
import { bounds, type Config } from "../config.ts";
import type { HttpDoor } from "../edge/http.ts";
import { createMetricsDoor } from "../edge/metrics-door.ts";
import { fail } from "../error.ts";
import { createAddressAllowance } from "../limit/address-allowance.ts";
import type { Log } from "../log.ts";
import type { Door, Metrics } from "../metrics.ts";
import type { Caller } from "../rpc/caller.ts";
import { createGate } from "../rpc/gate.ts";
import { createGrpcDoor, type GrpcDoor } from "../rpc/grpc/grpc-door.ts";
import { createRpcDoor, type RpcDoor } from "../rpc/rpc-door.ts";
import { pathOfMethod, type ServedService } from "../rpc/served.ts";
import type { AddressAllowanceView, Admit } from "../run/admission.ts";
import { createServe, type Serve, type ServeOptions } from "../server/http-exchange.ts";
import { createListener, type Listener, type ListenerOptions } from "../server/listener.ts";
import type { NodeRequest } from "../server/node-http.ts";
import { namesHost, refuse } from "../server/parser-refusal.ts";
import { continueIfExpected } from "../server/request-body.ts";
import { addressOf, authorizationsOf, headerOf, requestIdOf } from "../server/request-facts.ts";
import { createRequestIds } from "../server/request-id.ts";
import type { RequestTracker } from "../server/request-tracker.ts";
import type { SessionAccess } from "../signin/session-access.ts";
import { meterLookUps } from "./meters.ts";
import { createReporting, type Reporting } from "./reporting.ts";

/** What both listeners need. */
export interface ListenersParts {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly requests: RequestTracker;
  readonly admit: Admit;
  readonly isServiceToken: (presented: string) => boolean;
  /** Undefined where nobody can sign in. */
  readonly sessions: SessionAccess | undefined;
}

/** The listener for the world: REST, `/healthz` and its like, and the RPCs that the public may call. */
export function createPublicListener(
  parts: ListenersParts & { readonly services: readonly ServedService[]; readonly door: PublicDoorMaker },
): Listener {
  const { config, clock, metrics } = parts;
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
    look: addressAllowance.snapshot,
  };
  const { reporting, newRequestId, serve, options } = listenerBasis(parts, "rest");
  const door = parts.door({ allowance, reporting });
  const rpcs = createRpcDoors(parts, { reporting, newRequestId, listener: "public", allowance });
  return createListener({
    ...options,
    connectionsPerAddressMax: config.trustProxyHops > 0 ? undefined : config.connectionsPerAddressMax,
    isConversation: conversations(parts.services),
    onRequest: toDoors({ ...rpcs, http: door, serve, newRequestId }),
  });
}

/** Makes the public listener's HTTP door from what the listener knows. */
export type PublicDoorMaker = (basis: { allowance: AddressAllowanceView; reporting: Reporting }) => HttpDoor;

/** The listener for internal services: every RPC, health, reflection and `/metrics`. */
export async function createInternalListener(
  parts: ListenersParts & { readonly services: readonly ServedService[] },
): Promise<Listener> {
  const { config, metrics, isServiceToken } = parts;
  const { reporting, newRequestId, serve, options } = listenerBasis(parts, "rpc");
  const door = createMetricsDoor({ metrics, isServiceToken });
  // Whoever reaches this listener is one of ours: no address is held to an allowance.
  const allowance: AddressAllowanceView = { guard: unguarded, look: () => undefined };
  const rpcs = createRpcDoors(parts, { reporting, newRequestId, listener: "internal", allowance });
  return createListener({
    ...options,
    connectionsPerAddressMax: undefined,
    tls: await readTls(config.grpcTls),
    isConversation: conversations(parts.services),
    onRequest: toDoors({ ...rpcs, http: door, serve, newRequestId }),
  });
}

function listenerBasis({ config, clock, log, metrics, requests }: ListenersParts, door: Door) {
  const reporting = createReporting({ log, metrics, door });
  const newRequestId = createRequestIds(randomBytes);
  const { trustProxyHops, connectionsMax } = config;
  const basis = { requests, newRequestId, report: reporting.transport };
  return {
    reporting,
    newRequestId,
    serve: createServe({ ...basis, trustProxyHops } satisfies ServeOptions),
    options: { ...basis, clock, connectionsMax } satisfies Partial<ListenerOptions>,
  };
}

/** The doors for RPCs, with one gate before both. */
function createRpcDoors(
  parts: ListenersParts & { services: readonly ServedService[] },
  options: {
    readonly reporting: Reporting;
    readonly newRequestId: () => string;
    readonly listener: ListenerName;
    readonly allowance: AddressAllowanceView;
  },
): { rpc: RpcDoor; grpc: GrpcDoor } {
  const { config, clock, requests, services, admit, isServiceToken, sessions } = parts;
  const { reporting, newRequestId, listener, allowance } = options;
  const factsOptions = { newRequestId, trustProxyHops: config.trustProxyHops };
  const shared = {
    listener,
    clock,
    services,
    gate: createGate({ listener, admit, allowance, isServiceToken, sessions }),
    messageBytesMax: config.bodyBytesMax,
    onRefusal: reporting.rpc,
    onAnswered: () => reporting.answered("rpc"),
  };
  const rpc = createRpcDoor({
    ...shared,
    sessions,
    drainSignal: requests.signal,
    allowance,
    callerOf: (req: NodeRequest): Caller => ({
      authorizations: authorizationsOf(req),
      address: addressOf(req, factsOptions),
      requestId: requestIdOf(req, factsOptions),
      header: (name) => headerOf(req, name),
    }),
  });
  return { rpc, grpc: createGrpcDoor(shared) };
}

async function readTls(files: Config["grpcTls"]) {
  if (!files) return undefined;
  const [cert, key, clientCa] = await Promise.all(
    [files.certFile, files.keyFile, files.clientCaFile].map((file) => readFile(file)),
  );
  if (!cert || !key || !clientCa) throw fail("INTERNAL");
  return { cert, key, clientCa };
}

/** Tells the calls whose caller sends on while it is answered, from all others. */
function conversations(services: readonly ServedService[]): (req: NodeRequest) => boolean {
  const methods = services.flatMap(({ service }) => service.methods);
  const paths = methods
    .filter(({ methodKind }) => methodKind === "bidi_streaming" || methodKind === "client_streaming")
    .map(pathOfMethod);
  const known = new Set(paths);
  return ({ url = "" }) => known.has(url);
}

interface Doors {
  readonly grpc: GrpcDoor;
  readonly rpc: RpcDoor;
  readonly http: HttpDoor;
  readonly serve: Serve;
  newRequestId(): string;
}

/** The usual gRPC to its own door, other RPCs to the RPC door, all else to the HTTP door. */
function toDoors({ grpc, rpc, http, serve, newRequestId }: Doors): ListenerOptions["onRequest"] {
  return (req, res) => {
    if (grpc.takes(req)) return serve(grpc.door, req, res);
    if (!rpc.takes(req)) return serve(http, req, res);
    // HTTP/1.0 need not say it, but Connect needs to know.
    if (!namesHost(req)) return refuse(res, fail("MALFORMED_REQUEST"), newRequestId());
    // Connect reads node's request by itself, and would leave a caller with `Expect: 100-continue` waiting.
    continueIfExpected(req, res);
    rpc.handle(req, res);
  };
}
