// The paths beside the API: for load balancers and tools on the public listener, for what scrapes
// the metrics on the internal one.

import { metricsRole } from "../auth/policy.ts";
import {
  type NamedService,
  proveService,
  requireRole,
  type VerifyServiceToken,
} from "../auth/require-service.ts";
import type { HttpHandler, HttpRequest, HttpResponse } from "../http/handler.ts";
import { preferredType } from "../http/headers.ts";
import { pathOf } from "../http/request-head.ts";
import { type StaticBody, staticAnswer } from "../http/static-body.ts";
import { type Metrics, metricsForms, metricsTypes } from "../metrics/metrics.ts";
import { fail, type Refusal, refusalFrom } from "../refusal/refusal.ts";

/**
 * The paths of the public listener for load balancers and tools: `/healthz`, `/readyz` and
 * `/openapi.json`.
 */
export function createOperationsHandler(parts: {
  readonly readiness: { ready(): boolean; why(): string | undefined };
  readonly openApi: StaticBody;
  /** Gets the requests for every other path. */
  readonly next: HttpHandler;
}): HttpHandler {
  const { readiness, openApi, next } = parts;
  const answers = new Map<string, (request: HttpRequest) => HttpResponse>([
    ["/healthz", (request) => textAnswer(request, 200, "ok")],
    [
      "/readyz",
      (request) =>
        readiness.ready()
          ? textAnswer(request, 200, "ready")
          : textAnswer(request, 503, `${readiness.why()}`),
    ],
    ["/openapi.json", (request) => staticAnswer(request, openApi, { headers: [], caching: "no-cache" })],
  ]);

  return (request) => {
    const answer = answers.get(pathOf(request.target));
    if (!answer) return next(request);
    if (request.method === "GET" || request.method === "HEAD") return answer(request);
    throw fail("METHOD_NOT_ALLOWED", { metadata: { allow: "GET, HEAD" } });
  };
}

function textAnswer({ requestId }: HttpRequest, status: 200 | 503, words: string): HttpResponse {
  const type = "text/plain; charset=utf-8";
  const headers = ["Content-Type", type, "Cache-Control", "no-store", "X-Request-Id", requestId];
  if (status === 503) headers.push("Retry-After", "1");
  return { status, headers, body: `${words}\n`, uncounted: true };
}

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
