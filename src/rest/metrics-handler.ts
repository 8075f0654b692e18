import { metricsRole } from "../auth/policy.ts";
import {
  type NamedService,
  proveService,
  requireRole,
  type VerifyServiceToken,
} from "../auth/require-service.ts";
import type { HttpHandler, HttpRequest } from "../http/handler.ts";
import { preferredType } from "../http/preference.ts";
import { pathOf } from "../http/request-head.ts";
import { type Metrics, metricsForms, metricsTypes } from "../metrics/metrics.ts";
import { fail, type Refusal, refusalFrom } from "../refusal/refusal.ts";

/**
 * The HTTP of the internal listener: `GET /metrics` for services with the role for it, in the form
 * of OpenMetrics for those that prefer it. Every other path is NOT_FOUND.
 */
export function createMetricsHandler(parts: {
  readonly metrics: Pick<Metrics, "render">;
  readonly verifyServiceToken: VerifyServiceToken;
  /** Called with the refusal of each request whose token proves no service. */
  readonly onUnproven: (refused: { readonly address: string; readonly refusal: Refusal }) => void;
}): HttpHandler {
  async function prove({ authorizations, address }: HttpRequest): Promise<NamedService | undefined> {
    try {
      return await proveService(authorizations, parts.verifyServiceToken);
    } catch (thrown) {
      const refusal = refusalFrom(thrown);
      parts.onUnproven({ address, refusal });
      throw refusal;
    }
  }
  return async (request) => {
    if (pathOf(request.target) !== "/metrics") throw fail("NOT_FOUND", { problem: notFoundWords });
    if (request.method !== "GET") throw fail("METHOD_NOT_ALLOWED", { metadata: { allow: "GET" } });
    requireRole(await prove(request), metricsRole);
    const form = preferredType(request.header("accept"), metricsForms);
    const headers = ["Content-Type", metricsTypes[form], "Cache-Control", "no-store", "Vary", "Accept"];
    headers.push("X-Request-Id", request.requestId);
    return { status: 200, headers, body: await parts.metrics.render(form), uncounted: true };
  };
}

const notFoundWords =
  "There is nothing at this path. This is Keyrun's internal listener: gRPC, and GET /metrics.";
