import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import type { RunAppRequest } from "#gen/keyrun/v1/run_service_pb.ts";
import { RunAppResponseSchema, RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { createTranscoder } from "#src/transcode/transcoder.ts";

const transcoder = createTranscoder([RunService]);

function run(target: string, body: string) {
  const match = transcoder.match("POST", target);
  if (match.kind !== "found") return match;
  const headers = { contentType: "application/json", contentEncoding: undefined };
  return transcoder.decodeRequest(match.route, { ...headers, body: new TextEncoder().encode(body) });
}

function ran(target: string, body: string): RunAppRequest {
  const decoded = run(target, body);
  if (decoded.kind !== "message") throw new Error(`${target} gave ${decoded.kind}`);
  return decoded.message as RunAppRequest;
}

test("the run path becomes a RunAppRequest", () => {
  expect(ran("/api/apps/echo/run", '{"text":"hello"}')).toMatchObject({ appId: "echo", text: "hello" });
  expect(ran("/api/apps/a%2Fb/run", "{}").appId).toBe("a/b");
});

test("an empty text counts as set; an absent one or null does not", () => {
  expect(ran("/api/apps/echo/run", '{"text":""}').text).toBe("");
  for (const body of ["", "{}", '{"text":null}'])
    expect(ran("/api/apps/echo/run", body).text).toBeUndefined();
});

test.each([
  ["/api/apps/echo/run", '{"app_id":"echo"}', "app_id"],
  ["/api/apps/echo/run", '{"appId":"other","text":"a"}', "appId"],
  ["/api/apps/echo/run?text=a", "{}", "text"],
  ["/api/apps/echo/run?key=a", "", "key"],
  ["/api/apps/echo/run", '{"txt":"a"}', "txt"],
  ["/api/apps/echo/run", '{"text":1}', "text"],
])("a run at %s with %s is refused for %s", (target, body, param) => {
  expect(run(target, body)).toMatchObject({ problem: "invalid_argument", param });
});

test.each([
  "/api/apps/echo/run/",
  "/api/apps//run",
  "/api/apps/echo",
  "/api/apps/a/b/run",
  "/API/apps/echo/run",
])("the path %s is not found", (target) => {
  expect(run(target, "{}").kind).toBe("not_found");
});

test.each(["GET", "HEAD", "OPTIONS", "PUT"])("the refusal of %s on the run path lists POST", (method) => {
  expect(transcoder.match(method, "/api/apps/echo/run")).toEqual({
    kind: "method_not_allowed",
    allow: ["POST"],
  });
});

test("a response has its text even if the text is empty", () => {
  const response = create(RunAppResponseSchema, { runId: "run_1", appId: "echo" });
  const { body } = transcoder.encodeResponse(transcoder.bindings[0]!, response);
  expect(body).toBe('{"runId":"run_1","appId":"echo","text":""}');
});
