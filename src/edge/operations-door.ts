import { fail } from "../error.ts";
import { type HttpDoor, type HttpResponse, pathOf } from "./http.ts";
import { refusalResponse } from "./refusal-response.ts";

export interface OperationsDoorParts {
  readonly readiness: { ready(): boolean; why(): string | undefined };
  readonly openApi: object;
  /** Answers every other path. */
  readonly next: HttpDoor;
}

/** What balancers and tools ask of the public listener: `/healthz`, `/readyz` and `/openapi.json`. */
export function createOperationsDoor({ readiness, openApi, next }: OperationsDoorParts): HttpDoor {
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
    const { requestId } = request;
    if (request.method === "GET" || request.method === "HEAD") return respond(answer(), requestId);
    const refusal = fail("METHOD_NOT_ALLOWED", { metadata: { allow: "GET, HEAD" } });
    return refusalResponse(refusal, { requestId, accept: request.header("accept"), rateHeaders: [] });
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
  return { status, headers, body };
}
