import type { HttpHandler, HttpRequest, HttpResponse } from "../http/handler.ts";
import { pathOf } from "../http/request-head.ts";
import { type StaticBody, staticAnswer } from "../http/static-body.ts";
import { fail } from "../refusal/refusal.ts";

export interface OperationsHandlerParts {
  readonly readiness: { ready(): boolean; why(): string | undefined };
  readonly openApi: StaticBody;
  /** Gets the requests for every other path. */
  readonly next: HttpHandler;
}

/**
 * The paths of the public listener for load balancers and tools: `/healthz`, `/readyz` and
 * `/openapi.json`.
 */
export function createOperationsHandler({ readiness, openApi, next }: OperationsHandlerParts): HttpHandler {
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
