import { readBearer } from "../auth/credential.ts";
import { fail, type Refusal } from "../error.ts";
import { type HttpDoor, pathOf } from "./http.ts";
import { refusalResponse } from "./refusal-response.ts";

/** `GET /metrics` for who has the service token, and 404 for every other path: the internal listener's HTTP. */
export function createMetricsDoor(parts: {
  readonly metrics: { readonly contentType: string; render(): Promise<string> };
  readonly isServiceToken: (presented: string) => boolean;
}): HttpDoor {
  return async (request) => {
    const { requestId } = request;
    const refuse = (refusal: Refusal) =>
      refusalResponse(refusal, { requestId, accept: request.header("accept"), rateHeaders: [] });
    if (pathOf(request.target) !== "/metrics") return refuse(fail("NOT_FOUND", { problem: notFoundWords }));
    if (request.method !== "GET") return refuse(fail("METHOD_NOT_ALLOWED", { metadata: { allow: "GET" } }));
    const credential = readBearer(request.authorizations);
    if (credential.kind === "missing") return refuse(fail("MISSING_CREDENTIAL"));
    if (credential.kind !== "bearer" || !parts.isServiceToken(credential.token)) {
      return refuse(fail("INVALID_CREDENTIAL"));
    }
    const headers = [
      "Content-Type",
      parts.metrics.contentType,
      "Cache-Control",
      "no-store",
      "X-Request-Id",
      requestId,
    ];
    return { status: 200, headers, body: await parts.metrics.render() };
  };
}

const notFoundWords =
  "There is nothing at this path. This is Keyrun's internal listener: gRPC, and GET /metrics.";
