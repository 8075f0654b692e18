import { readBearer } from "../auth/credential.ts";
import type { HttpHandler } from "../http/handler.ts";
import { preferredType } from "../http/preference.ts";
import { pathOf } from "../http/request-head.ts";
import { type Metrics, metricsForms, metricsTypes } from "../metrics.ts";
import { fail } from "../refusal/refusal.ts";

/**
 * The HTTP of the internal listener: `GET /metrics` for callers with the service token, in the form
 * of OpenMetrics for those that prefer it. Every other path is NOT_FOUND.
 */
export function createMetricsHandler(parts: {
  readonly metrics: Pick<Metrics, "render">;
  readonly isServiceToken: (presented: string) => boolean;
}): HttpHandler {
  return async (request) => {
    if (pathOf(request.target) !== "/metrics") throw fail("NOT_FOUND", { problem: notFoundWords });
    if (request.method !== "GET") throw fail("METHOD_NOT_ALLOWED", { metadata: { allow: "GET" } });
    const credential = readBearer(request.authorizations);
    if (credential.kind === "missing") throw fail("MISSING_CREDENTIAL");
    if (credential.kind !== "bearer" || !parts.isServiceToken(credential.token)) {
      throw fail("INVALID_CREDENTIAL");
    }
    const form = preferredType(request.header("accept"), metricsForms);
    const headers = ["Content-Type", metricsTypes[form], "Cache-Control", "no-store", "Vary", "Accept"];
    headers.push("X-Request-Id", request.requestId);
    return { status: 200, headers, body: await parts.metrics.render(form), uncounted: true };
  };
}

const notFoundWords =
  "There is nothing at this path. This is Keyrun's internal listener: gRPC, and GET /metrics.";
