import { expect, test } from "vitest";
import type { Answer, HttpRequest, WholeResponse } from "#src/http/handler.ts";
import { createStaticBody } from "#src/http/static-body.ts";
import { createOperationsHandler } from "#src/rest/operations-handler.ts";

const here = { status: 200, headers: [], body: "the next handler" };

/** What is answered while the process is ready, or for this reason is not. */
function ask(method: string, target: string, why?: string): Answer {
  const handler = createOperationsHandler({
    readiness: { ready: () => why === undefined, why: () => why },
    openApi: createStaticBody(Buffer.from("{}"), { contentType: "application/json", compressed: {} }),
    next: () => here,
  });
  const request = { method, target, requestId: "r-1", header: () => undefined } as unknown as HttpRequest;
  return handler(request) as Answer;
}

test("a process that is not ready says why, and when to ask again; it lives all the same", () => {
  const { status, headers, body } = ask("GET", "/readyz", "the disk is full") as WholeResponse;
  expect([status, body]).toEqual([503, "the disk is full\n"]);
  expect(headers.join(" ")).toContain("Retry-After 1");
  expect(headers.join(" ")).toContain("Cache-Control no-store X-Request-Id r-1");
  expect(ask("GET", "/healthz", "the disk is full")).toMatchObject({ status: 200, body: "ok\n" });
});

test("a process that is ready says so, without a time to wait", () => {
  const { status, headers, body } = ask("GET", "/readyz?verbose") as WholeResponse;
  expect([status, body]).toEqual([200, "ready\n"]);
  expect(headers).not.toContain("Retry-After");
});

test("probes are asked by GET and HEAD, any other method is told these two, and other paths go on", () => {
  for (const path of ["/healthz", "/readyz", "/openapi.json"]) {
    expect(ask("HEAD", path)).toMatchObject({ status: 200 });
    const allow = { reason: "METHOD_NOT_ALLOWED", metadata: { allow: "GET, HEAD" } };
    expect(() => ask("POST", path)).toThrow(expect.objectContaining(allow));
  }
  expect(ask("POST", "/readyz/")).toBe(here);
});
