import type { HttpHandler, HttpResponse } from "../http/handler.ts";
import { pathOf } from "../http/request-head.ts";
import { fail } from "../refusal/refusal.ts";

export interface OperationsHandlerParts {
  readonly readiness: { ready(): boolean; why(): string | undefined };
  readonly openApi: object;
  /** Gets the requests for every other path. */
  readonly next: HttpHandler;
}

/**
 * The paths of the public listener for load balancers and tools: `/healthz`, `/readyz` and
 * `/openapi.json`.
 */
export function createOperationsHandler({ readiness, openApi, next }: OperationsHandlerParts): HttpHandler {
  const openApiJson = JSON.stringify(openApi);
  const answers = new Map<string, () => Answer>([
    ["/healthz", () => ({ status: 200, type: text, body: "ok\n" })],
    [
      "/readyz",
      () => (readiness.ready() ? ready : { status: 503, type: text, body: `${readiness.why()}\n` }),
    ],
    ["/openapi.json", () => ({ status: 200, type: "application/json", body: openApiJson })],
  ]);

  return (request) => {
    const answer = answers.get(pathOf(request.target));
    if (!answer) return next(request);
    if (request.method === "GET" || request.method === "HEAD") return respond(answer(), request.requestId);
    throw fail("METHOD_NOT_ALLOWED", { metadata: { allow: "GET, HEAD" } });
  };
}

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly body: string;
}

const text = "text/plain; charset=utf-8";
const ready: Answer = { status: 200, type: text, body: "ready\n" };

function respond({ status, type, body }: Answer, requestId: string): HttpResponse {
  const headers = ["Content-Type", type, "Cache-Control", "no-store", "X-Request-Id", requestId];
  if (status === 503) headers.push("Retry-After", "1");
  return { status, headers, body, uncounted: true };
}
