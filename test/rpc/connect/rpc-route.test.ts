import { expect, test } from "vitest";
import { closedAtEnd } from "../../harness/closed-at-end.ts";
import { startKeyrun } from "../../harness/keyrun.ts";
import { postConnect } from "../../harness/post-connect.ts";

const keyrun = closedAtEnd(await startKeyrun());

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

/** The body has what REST tells, and code and message as Connect's clients read them. */
async function expectToldBoth(response: Response, code: string, reason: string): Promise<string> {
  expect(response.headers.get("content-type")).toBe("application/json; charset=utf-8");
  const body = (await response.json()) as { error: { message: string } };
  expect(body).not.toHaveProperty("details");
  const { message } = body.error;
  expect(body).toMatchObject({ code, message, error: { code: reason.toLowerCase(), requestId: "mine" } });
  return message;
}

test.each([
  ["an unknown method", "/keyrun.v1.RunService/Walk"],
  ["an unknown service", "/nobody.v1.Service/Do"],
])("%s is 404, and is told to clients of REST and of Connect", async (_, path) => {
  const response = await ask(path, "POST", "application/json");
  expect(response.status).toBe(404);
  await expectToldBoth(response, "unimplemented", "NOT_FOUND");
});

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
    expect(await expectToldBoth(response, "unknown", "METHOD_NOT_ALLOWED")).toContain("POST");
    expect(await keyrun.metric(series)).toBe(before + 1);
  },
);

test.each([
  [run, "text/plain"],
  [run, "application/xml"],
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
  const message = await expectToldBoth(response, "unknown", "UNSUPPORTED_MEDIA_TYPE");
  expect(response.headers.has("ratelimit-policy")).toBe(path === run);
  expect(message).toContain(path === run ? "`application/json`" : "`application/connect+json`");
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

test("JSON without Connect-Protocol-Version is taken by the internal listener, as curl sends it, and the public one asks for it", async () => {
  const { value } = await keyrun.newKey("demo");
  const runPlainly = (url: string, version?: string) =>
    fetch(`${url}${run}`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${value}`,
        "content-type": "application/json",
        ...(version !== undefined && { "connect-protocol-version": version }),
      },
      body: '{"appId":"echo","text":"plain"}',
    });
  const internal = await runPlainly(keyrun.internalUrl);
  expect(internal.status).toBe(200);
  expect(await internal.json()).toMatchObject({ appId: "echo", text: "plain" });
  const refused = await runPlainly(keyrun.publicUrl);
  expect(refused.status).toBe(400);
  expect(await refused.json()).toMatchObject({
    code: "invalid_argument",
    message: expect.stringMatching(/connect-protocol-version/i),
  });
  expect((await runPlainly(keyrun.publicUrl, "1")).status).toBe(200);
});
