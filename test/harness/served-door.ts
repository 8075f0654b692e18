import { onTestFinished } from "vitest";
import { systemClock } from "#src/clock.ts";
import type { HttpDoor } from "#src/edge/http.ts";
import { createServe } from "#src/server/http-exchange.ts";
import { createListener, type Listener, type ListenerOptions } from "#src/server/listener.ts";
import { createRequestTracker, type RequestTracker } from "#src/server/request-tracker.ts";
import type { TransportEvent } from "#src/server/transport-event.ts";
import { type TransportLimits, transportLimits } from "#src/server/transport-limits.ts";

/** A door behind the real listener, on a free port of the loopback. */
export interface ServedDoor {
  readonly port: number;
  readonly url: string;
  readonly listener: Listener;
  readonly requests: RequestTracker;
  /** What was reported, in order. */
  readonly events: TransportEvent[];
}

export interface ServedDoorOptions extends Partial<Omit<ListenerOptions, "limits">> {
  /** Only what differs from the product's limits. */
  readonly limits?: Partial<TransportLimits>;
  readonly trustProxyHops?: number;
}

export async function serveDoor(door: HttpDoor, options: ServedDoorOptions = {}): Promise<ServedDoor> {
  const { limits: changed, trustProxyHops = 0, requests = createRequestTracker(), ...others } = options;
  const limits = { ...transportLimits, ...changed };
  const events: TransportEvent[] = [];
  let ids = 0;
  const newRequestId = () => {
    ids += 1;
    return `req_${ids}`;
  };
  const shared = {
    newRequestId,
    requests,
    limits,
    report: (event: TransportEvent) => void events.push(event),
  };
  const serve = createServe({ ...shared, trustProxyHops });
  const listener = createListener({
    connectionsMax: 20_000,
    connectionsPerAddressMax: undefined,
    clock: systemClock,
    onRequest: (req, res) => serve(door, req, res),
    ...others,
    ...shared,
  });
  const { port } = await listener.listen({ host: "127.0.0.1", port: 0 });
  return { port, url: `http://127.0.0.1:${port}`, listener, requests, events };
}

/** The same, gone with the test that asks for it. */
export async function serveForTest(door = tellingDoor, options?: ServedDoorOptions): Promise<ServedDoor> {
  const served = await serveDoor(door, options);
  onTestFinished(() => served.listener.destroy());
  return served;
}

/** Answers every request with what the edge would know of it, and the body's length. */
export const tellingDoor: HttpDoor = async (request) => {
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
