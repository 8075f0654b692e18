import { afterAll, beforeAll, expect, test } from "vitest";
import { type Keyrun, startKeyrun } from "../../harness/keyrun.ts";
import { postConnect } from "../../harness/post-connect.ts";

let keyrun: Keyrun;

beforeAll(async () => {
  keyrun = await startKeyrun();
});

afterAll(() => keyrun.close());

const run = "/keyrun.v1.RunService/RunApp";
const watch = "/keyrun.v1.KeyService/WatchKeys";

function ask(path: string, method: string, type?: string) {
  return fetch(`${keyrun.publicUrl}${path}`, {
    method,
    headers: {
      "X-Request-Id": "mine",
      "Connect-Protocol-Version": "1",
      ...(type !== undefined && { "Content-Type": type }),
    },
    ...(method === "POST" && { body: new TextEncoder().encode("{}") }),
  });
}

test.each(["GET", "PUT", "OPTIONS", "DELETE"])(
  "%s on a method's path is 405 with Allow: POST, and is answered and counted like any refusal",
  async (method) => {
    const series = 'keyrun_requests_total{entry="connect",outcome="METHOD_NOT_ALLOWED",status="405"}';
    const before = await keyrun.metric(series);
    const response = await ask(run, method);
    expect(response.status).toBe(405);
    expect(response.headers.get("allow")).toBe("POST");
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect(response.headers.get("ratelimit-policy")).toBe('"address";q=60;w=60');
    expect(response.headers.get("content-length")).not.toBeNull();
    expect(response.headers.get("x-request-id")).toBe("mine");
    expect(await response.json()).toMatchObject({
      error: { code: "method_not_allowed", requestId: "mine", message: expect.stringContaining("POST") },
    });
    expect(await keyrun.metric(series)).toBe(before + 1);
  },
);

test.each([
  [run, "text/plain"],
  [run, "application/connect+json"],
  [run, "application/grpc+xml"],
  [run, "application/grpc-web-text"],
  [run, "application/grpc-web-text+proto"],
  [run, undefined],
  [watch, "application/json"],
  [watch, "application/proto"],
])("%s with the type %s is 415, and the answer names the valid types", async (path, type) => {
  const response = await ask(path, "POST", type);
  expect(response.status).toBe(415);
  expect(response.headers.get("x-request-id")).toBe("mine");
  const { error } = (await response.json()) as { error: { message: string } };
  expect(error).toMatchObject({ code: "unsupported_media_type", requestId: "mine" });
  expect(response.headers.has("ratelimit-policy")).toBe(path === run);
  expect(error.message).toContain(path === run ? "`application/json`" : "`application/connect+json`");
  const connect = path === run ? "application/json, application/proto" : "application/connect+json";
  expect(response.headers.get("accept")).toBe(`${connect}, application/grpc-web, application/grpc`);
});

test.each([
  [run, "application/json"],
  [run, "application/json; charset=utf-8"],
  [run, "application/proto"],
])(
  "%s with the type %s and no credential is 401, with a challenge that names no error",
  async (path, type) => {
    const response = await ask(path, "POST", type);
    expect(response.status).toBe(401);
    expect(response.headers.get("www-authenticate")).toBe('Bearer realm="keyrun"');
  },
);

test("an invalid credential gets a challenge that names an error, on either listener", async () => {
  for (const [url, rpc] of [
    [keyrun.publicUrl, "RunService/RunApp"],
    [keyrun.internalUrl, "KeyService/ListKeys"],
  ] as const) {
    const response = await postConnect(url, rpc, { token: "nobody", body: "{}" });
    expect(response.status).toBe(401);
    expect(response.headers.get("www-authenticate")).toBe('Bearer realm="keyrun", error="invalid_token"');
  }
});

test("no cache keeps that something is not there, since it may come", async () => {
  for (const [rpc, body, status] of [
    ["TeamService/GetTeam", '{"teamId":"nobody"}', 404],
    ["TeamService/Nothing", "{}", 404],
  ] as const) {
    const response = await postConnect(keyrun.internalUrl, rpc, { token: keyrun.serviceToken, body });
    expect(response.status).toBe(status);
    expect(response.headers.get("cache-control")).toBe("no-store");
  }
});

test("gRPC-Web has no status 401, and so no challenge", async () => {
  const response = await ask(run, "POST", "application/grpc-web+proto");
  expect(response.status).toBe(200);
  expect(response.headers.get("www-authenticate")).toBeNull();
});
