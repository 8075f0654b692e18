import type { Mount } from "../../http/handler.ts";
import { headerOf } from "../../http/request-head.ts";
import type { Incoming } from "../node-http.ts";
import { transportLimits } from "../transport-limits.ts";
import { createBatch } from "./batch.ts";
import { Exchange, type ExchangeOptions } from "./exchange.ts";

/**
 * Answers one of Node's requests through a handler, after everything that arrived with it was read.
 * Never throws.
 */
export type Serve = (mount: Mount, incoming: Incoming) => void;

export type ServeOptions = Omit<ExchangeOptions, "limits"> & Partial<Pick<ExchangeOptions, "limits">>;

/**
 * Converts Node's request objects of HTTP/1.1 and HTTP/2 into plain values for the handlers. This
 * is the one place where the refusal of a handler is rendered, logged and counted.
 */
export function createServe(options: ServeOptions): Serve {
  const context = { ...options, limits: options.limits ?? transportLimits };
  const batch = createBatch(context.limits.batchedRequestsMax);
  let warned = options.trustProxyHops > 0;
  return (mount, incoming) => {
    if (!warned && headerOf(incoming.head, "x-forwarded-for") !== undefined) {
      warned = true;
      options.report({ kind: "untrusted_forwarded_for" });
    }
    batch(new Exchange(mount, incoming, context));
  };
}
