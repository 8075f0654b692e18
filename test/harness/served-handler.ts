import { onTestFinished } from "vitest";
import { systemClock } from "#src/base/clock.ts";
import type { HttpHandler, Mount } from "#src/http/handler.ts";
import type { LoggedRequest, Outcomes } from "#src/http/outcomes.ts";
import type { RequestHead } from "#src/http/request-head.ts";
import { ByteBudget } from "#src/limit/byte-budget.ts";
import { createRequestTracker, type RequestTracker } from "#src/server/drain.ts";
import { createServe } from "#src/server/exchange/exchange.ts";
import { createListener, type Listener, type ListenerOptions } from "#src/server/listener.ts";
import { type TransportEvent, type TransportLimits, transportLimits } from "#src/server/transport.ts";

/** A handler behind the real listener, on a free loopback port. */
export interface ServedHandler {
  readonly port: number;
  readonly url: string;
  readonly listener: Listener;
  readonly requests: RequestTracker;
  /** The reported events, in order. */
  readonly events: TransportEvent[];
  /** The refusals, in order. */
  readonly refusals: NotedRefusal[];
  /** The entry of each counted success, in order. */
  readonly successes: string[];
}

export interface NotedRefusal extends LoggedRequest {
  readonly reason: string;
  readonly cause: unknown;
}

export interface ServedHandlerOptions extends Partial<Omit<ListenerOptions, "limits">> {
  /** The limits that differ from the product's. */
  readonly limits?: Partial<TransportLimits>;
  readonly trustProxyHops?: number;
}

export function serveHandler(handler: HttpHandler, options?: ServedHandlerOptions): Promise<ServedHandler> {
  const mount: Mount = { handler, entry: "rest", refusalForm: "json" };
  return serveMounts(() => () => mount, options);
}

/** Creates the function that finds a request's mount. The argument receives the outcomes. */
export type MakeFindMount = (outcomes: Outcomes) => (head: RequestHead) => Mount;

export async function serveMounts(
  makeFindMount: MakeFindMount,
  options: ServedHandlerOptions = {},
): Promise<ServedHandler> {
  const { limits: changed, trustProxyHops = 0, requests = createRequestTracker(), ...others } = options;
  const limits = { ...transportLimits, ...changed };
  const events: TransportEvent[] = [];
  const refusals: NotedRefusal[] = [];
  const successes: string[] = [];
  const outcomes: Outcomes = {
    succeeded: (entry) => void successes.push(entry),
    refused({ reason, cause }, _entry, { requestId, method, target, address }) {
      refusals.push({ reason, cause, requestId, method, target, address });
    },
  };
  let ids = 0;
  const newRequestId = () => {
    ids += 1;
    return `req_${ids}`;
  };
  const shared = {
    newRequestId,
    requests,
    limits,
    outcomes,
    report: (event: TransportEvent) => void events.push(event),
  };
  const bytes = new ByteBudget(Number.POSITIVE_INFINITY);
  const serve = createServe({ ...shared, trustProxyHops, clock: systemClock, bytes });
  const findMount = makeFindMount(outcomes);
  const listener = createListener({
    connectionsMax: 20_000,
    connectionsPerAddressMax: undefined,
    clock: systemClock,
    entry: "rest",
    onRequest: (incoming) => serve(findMount(incoming.head), incoming),
    ...others,
    ...shared,
  });
  const { port } = await listener.listen({ host: "127.0.0.1", port: 0 });
  return { port, url: `http://127.0.0.1:${port}`, listener, requests, events, refusals, successes };
}

/** `serveHandler` for one test. The end of the test destroys the listener. */
export async function serveForTest(
  handler = echoHandler,
  options?: ServedHandlerOptions,
): Promise<ServedHandler> {
  const served = await serveHandler(handler, options);
  onTestFinished(() => served.listener.destroy());
  return served;
}

/** Answers every request with the facts that a handler gets, and the body. */
export const echoHandler: HttpHandler = async (request) => {
  const body = await request.readBody(1024 * 1024);
  return jsonAnswer(200, {
    method: request.method,
    target: request.target,
    address: request.address,
    requestId: request.requestId,
    authorizations: request.authorizations,
    body: body.kind === "whole" ? Buffer.from(body.bytes).toString() : body.kind,
  });
};

export function jsonAnswer(status: number, value: unknown) {
  return { status, headers: ["Content-Type", "application/json"], body: JSON.stringify(value) };
}
