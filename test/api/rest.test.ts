import { Agent, request } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { h2cRequest, h2cSession } from "../harness/h2c-client.ts";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { answersIn, rawSocket } from "../harness/raw-socket.ts";

const clock = createManualClock();
let keyrun: Keyrun;
let authorization: string;

beforeAll(async () => {
  keyrun = await startKeyrun({ clock, settings: { KEYRUN_BODY_BYTES_MAX: "4096" } });
});

const agent = new Agent({ keepAlive: true });

afterAll(async () => {
  agent.destroy();
  await keyrun.close();
});

/** The parts of a request in which it differs from a good run of `echo` by a new team. */
interface Ask {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: Record<string, string | undefined>;
  readonly body?: string | Uint8Array;
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly error?: Record<string, unknown>;
}

const runPath = "/api/apps/echo/run";

async function ask({ method = "POST", path = runPath, headers = {}, body = '{"text":"x"}' }: Ask = {}) {
  const key = await keyrun.newKey(await keyrun.newTeam());
  authorization = `Bearer ${key.value}`;
  const all = new Headers();
  for (const [name, value] of Object.entries({
    authorization,
    "content-type": "application/json",
    ...headers,
  })) {
    if (value !== undefined) all.set(name, value);
  }
  return answerOf({ method, path, headers: all, body });
}

/**
 * Over `node:http`: unlike `fetch`, it sends exactly what it is given, and no Content-Type of its
 * own.
 */
function answerOf(sent: { method: string; path: string; headers: Headers; body: string | Uint8Array }) {
  return new Promise<Answer>((resolve, reject) => {
    const { hostname, port } = new URL(keyrun.publicUrl);
    const body = sent.method === "HEAD" || sent.method === "GET" ? "" : sent.body;
    const headers = { ...Object.fromEntries(sent.headers), "content-length": Buffer.byteLength(body) };
    const options = { hostname, port, path: sent.path, method: sent.method, agent };
    const outgoing = request({ ...options, headers }, async (incoming) => {
      let text = "";
      for await (const chunk of incoming.setEncoding("utf8")) text += chunk;
      const headers = new Headers(
        Object.entries(incoming.headers).map(([name, value]) => [name, String(value)]),
      );
      const error = incoming.statusCode === 200 || text === "" ? undefined : JSON.parse(text).error;
      resolve({ status: incoming.statusCode ?? 0, headers, text, ...(error && { error }) });
    });
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}

const left = ({ headers }: Answer) => headers.get("ratelimit-remaining");
const policy = ({ headers }: Answer) => headers.get("ratelimit-policy");
const ofTeam = '"team";q=60;w=60';
const ofAddress = '"address";q=60;w=60';

test.each([
  ["an answer", {}, 200],
  ["a refusal", { body: "{}}" }, 400],
  ["a refusal as problem+json", { body: "{}}", headers: { accept: "application/problem+json" } }, 400],
  ["the OpenAPI document", { method: "GET", path: "/openapi.json", body: "" }, 200],
] as const)("%s ends its line, so that the prompt of a shell begins one", async (_, asked, status) => {
  const answer = await ask(asked);
  expect(answer.status).toBe(status);
  expect(answer.text.endsWith("}\n")).toBe(true);
});

describe("the shape of a refusal", () => {
  test("is one object of seven fields, with the request's id and the details of gRPC", async () => {
    const { status, headers, text } = await ask({ body: "{}", headers: { "x-request-id": "req-7" } });
    expect(status).toBe(400);
    expect(headers.get("content-type")).toBe("application/json");
    const message = "text or input is required: a string, which may be empty, or a JSON object.";
    expect(JSON.parse(text)).toEqual({
      error: {
        type: "invalid_request_error",
        code: "invalid_argument",
        message,
        param: "text",
        status: "INVALID_ARGUMENT",
        requestId: "req-7",
        details: [
          {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            reason: "INVALID_ARGUMENT",
            domain: "keyrun",
          },
          {
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            fieldViolations: [{ field: "text", description: message, reason: "INVALID_ARGUMENT" }],
          },
        ],
      },
    });
  });

  test("is JSON for callers that like it as much as RFC 9457, or like RFC 9457 less, or not at all", async () => {
    for (const accept of ["application/problem+json;q=0", "application/problem+json;q=0.5, */*", "*/*"]) {
      const { status, headers } = await ask({ body: "{}", headers: { accept } });
      expect([accept, status, headers.get("content-type")]).toEqual([accept, 400, "application/json"]);
    }
  });

  test("is the one of RFC 9457 for callers that ask for it", async () => {
    const { status, headers, text } = await ask({
      body: "{}",
      headers: { accept: "application/problem+json", "x-request-id": "req-8" },
    });
    expect(status).toBe(400);
    expect(headers.get("content-type")).toBe("application/problem+json");
    expect(JSON.parse(text)).toEqual({
      type: "urn:keyrun:error:invalid_argument",
      title: "invalid argument",
      status: 400,
      detail: "text or input is required: a string, which may be empty, or a JSON object.",
      code: "invalid_argument",
      param: "text",
      requestId: "req-8",
      details: expect.arrayContaining([expect.objectContaining({ reason: "INVALID_ARGUMENT" })]),
    });
  });

  test("has no param where no single field is wrong, and a 429 describes the limit", async () => {
    const key = await keyrun.newKey(await keyrun.newTeam());
    const headers = new Headers({ authorization: `Bearer ${key.value}` });
    const run = () => answerOf({ method: "POST", path: runPath, headers, body: '{"text":""}' });
    for (let i = 0; i < 60; i++) await run();
    const { status, error } = await run();
    expect(status).toBe(429);
    expect(error).toMatchObject({
      type: "rate_limit_error",
      code: "rate_limit_exceeded",
      param: null,
      status: "RESOURCE_EXHAUSTED",
    });
  });
});

describe("the success", () => {
  test("is JSON with the run's id, the app's id and the output, also when the output is empty", async () => {
    const { status, headers, text } = await ask({ body: '{"text":""}' });
    expect(status).toBe(200);
    expect(headers.get("content-type")).toBe("application/json");
    expect(JSON.parse(text)).toEqual({
      runId: expect.stringMatching(/^run_[0-9a-z]{24}$/),
      appId: "echo",
      text: "",
    });
  });
});

describe("method and path, decided before the key", () => {
  test.each(["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"])(
    "%s is 405 and says POST",
    async (method) => {
      const answer = await ask({ method, headers: { authorization: undefined } });
      expect(answer.status).toBe(405);
      expect(answer.headers.get("allow")).toBe("POST");
      expect(answer.headers.get("cache-control")).toBe("no-store");
      expect(policy(answer)).toBe(ofAddress);
      expect(answer.headers.get("x-request-id")).not.toBeNull();
      if (method === "HEAD") expect(answer.text).toBe("");
      else expect(answer.error).toMatchObject({ code: "method_not_allowed", status: "UNIMPLEMENTED" });
    },
  );

  test.each([
    `${runPath}/`,
    "/api/apps/echo",
    "/api/apps/echo/Run",
    "/api/apps//run",
    "//api/apps/echo/run",
    "/API/apps/echo/run",
    "/api/apps/echo/run/now",
    "/",
    "/nothing",
  ])("%s is 404, without the numbers of any limit", async (path) => {
    const answer = await ask({ path });
    expect(answer.status).toBe(404);
    expect(answer.error).toMatchObject({ code: "not_found", type: "not_found_error", status: "NOT_FOUND" });
    expect([...answer.headers.keys()].filter((name) => name.startsWith("ratelimit"))).toEqual([]);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect(answer.headers.get("x-request-id")).not.toBeNull();
  });

  test("a bad escape is 400 with the address's numbers, whatever the key", async () => {
    for (const path of ["/api/apps/%zz/run", "/api/apps/%/run", "/api/apps/a%2/run", "/api/apps/%ff/run"]) {
      const answer = await ask({ path });
      expect(answer.status).toBe(400);
      expect(answer.error).toMatchObject({ code: "invalid_argument" });
      expect(policy(answer)).toBe(ofAddress);
    }
  });

  test("an escaped slash is part of the app's id, which no app can have", async () => {
    for (const id of ["a%2Fb", "echo%00", "%20echo", "ECHO", "%E6%97%A5"]) {
      const answer = await ask({ path: `/api/apps/${id}/run` });
      expect({ id, status: answer.status, code: answer.error?.code }).toEqual({
        id,
        status: 404,
        code: "app_not_found",
      });
      expect(policy(answer)).toBe(ofTeam);
    }
  });

  test("an escaped letter is that letter", async () => {
    expect((await ask({ path: "/api/apps/%65cho/run" })).status).toBe(200);
  });
});

describe("the order of decisions", () => {
  const bad = { path: "/api/apps/nowhere/run", body: "{", headers: { "content-type": "text/plain" } };

  test("the key goes before the app, the media type and the body", async () => {
    const answer = await ask({ ...bad, headers: { ...bad.headers, authorization: undefined } });
    expect(answer.error).toMatchObject({ code: "missing_api_key" });
  });

  test("the app, the media type, the size, the JSON and the fields follow, and each refusal spends one", async () => {
    const type = { "content-type": "text/plain" };
    const long = "x".repeat(5_000);
    const steps = [
      [bad, 404, "app_not_found"],
      [{ headers: type, body: long }, 415, "unsupported_media_type"],
      [{ body: long }, 413, "request_too_large"],
      [{ body: "{" }, 400, "invalid_json"],
      [{ body: '{"texts":""}' }, 400, "invalid_argument"],
    ] as const;
    for (const [asked, status, code] of steps) {
      const answer = await ask(asked);
      expect({ status: answer.status, code: answer.error?.code, left: left(answer) }).toEqual({
        status,
        code,
        left: "59",
      });
      expect(policy(answer)).toBe(ofTeam);
      expect(answer.headers.get("retry-after")).toBeNull();
      expect(answer.headers.get("connection")).not.toBe("close");
    }
  });
});

describe("the body", () => {
  test("without Content-Type is JSON, and so is it with a charset", async () => {
    for (const type of [undefined, "application/json", "Application/JSON; charset=UTF-8"]) {
      expect((await ask({ headers: { "content-type": type } })).status).toBe(200);
    }
  });

  test.each([
    "text/plain",
    "application/x-www-form-urlencoded",
    "application/grpc",
    "application/grpc-not",
    "json",
    "multipart/form-data",
  ])("of the type %s is 415, with Accept and nothing of compression", async (type) => {
    const answer = await ask({ headers: { "content-type": type } });
    expect(answer.status).toBe(415);
    expect(answer.headers.get("accept")).toBe("application/json");
    expect(answer.headers.get("accept-encoding")).toBeNull();
    expect(answer.error).toMatchObject({ code: "unsupported_media_type", param: null });
  });

  test("with two types, one of them JSON, is 415, since nobody can say which of them is meant", async () => {
    const { value } = await keyrun.newKey(await keyrun.newTeam());
    const client = rawSocket({ port: Number(new URL(keyrun.publicUrl).port) });
    const types = "Content-Type: application/json\r\nContent-Type: text/plain\r\n";
    client.send(`POST ${runPath} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${value}\r\n${types}`);
    client.send('Content-Length: 12\r\nConnection: close\r\n\r\n{"text":"x"}');
    expect(answersIn(await client.closed())[0]?.status).toBe(415);
  });

  test("compressed is 415, with Accept-Encoding and nothing of types", async () => {
    const answer = await ask({ headers: { "content-encoding": "gzip" } });
    expect(answer.status).toBe(415);
    expect(answer.headers.get("accept-encoding")).toBe("identity");
    expect(answer.headers.get("accept")).toBeNull();
    expect((await ask({ headers: { "content-encoding": "identity" } })).status).toBe(200);
  });

  test("of exactly the bound is accepted, and one byte more is 413", async () => {
    const fill = (bytes: number) => JSON.stringify({ text: "x".repeat(bytes - '{"text":""}'.length) });
    expect((await ask({ body: fill(4096) })).status).toBe(200);
    const answer = await ask({ body: fill(4097) });
    expect(answer.status).toBe(413);
    expect(answer.error).toMatchObject({ code: "request_too_large", status: "RESOURCE_EXHAUSTED" });
  });

  test.each([
    ["a byte order mark", '﻿{"text":"x"}'],
    ["trailing text", '{"text":"x"} x'],
    ["two values", '{"text":"x"}{"text":"y"}'],
    ["nothing of JSON", "text=x"],
    ["a cut value", '{"text":"x'],
    ["bytes that are not UTF-8", new Uint8Array([...Buffer.from('{"text":"'), 0xff, ...Buffer.from('"}')])],
  ])("with %s is invalid_json", async (_, body) => {
    const answer = await ask({ body });
    expect({ status: answer.status, code: answer.error?.code }).toEqual({
      status: 400,
      code: "invalid_json",
    });
  });

  test.each([
    ["nothing at all", "", "text"],
    ["an empty object", "{}", "text"],
    ["null for the text", '{"text":null}', "text"],
    ["a number for the text", '{"text":1}', "text"],
    ["a field that is not there", '{"text":"x","texts":1}', "texts"],
    ["the app's id, although equal", '{"text":"x","app_id":"echo"}', "app_id"],
    ["the app's id by its JSON name", '{"text":"x","appId":"echo"}', "appId"],
  ])("with %s is refused by the field's name, as it was written", async (_, body, param) => {
    const answer = await ask({ body });
    expect(answer.status).toBe(400);
    expect(answer.error).toMatchObject({ code: "invalid_argument", param });
  });

  test("that is empty is named as the reason why a field is missing", async () => {
    const missing = "text or input is required: a string, which may be empty, or a JSON object.";
    expect((await ask({ body: "" })).error?.message).toBe(`The body is empty. ${missing}`);
    expect((await ask({ body: "{}" })).error?.message).toBe(missing);
  });

  test("with a field that is not there is told which field is wanted", async () => {
    const { error } = await ask({ body: '{"prompt":"hi"}' });
    expect(error).toMatchObject({
      param: "prompt",
      message: "prompt is no field here. Use one of: text, input.",
    });
  });

  test("that is empty has no type to refuse, as of `curl -d ''`", async () => {
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    const cancel = { path: "/api/runs/run_1fv0j56qgf3zjgkfrwasendm/cancel", headers };
    const run = await ask({ headers, body: "" });
    expect([run.status, run.error?.param]).toEqual([400, "text"]);
    const empty = await ask({ ...cancel, body: "" });
    expect([empty.status, empty.error?.code]).toEqual([404, "run_not_found"]);
    const full = await ask({ ...cancel, body: "a=b" });
    expect([full.status, full.error?.code]).toEqual([415, "unsupported_media_type"]);
  });

  test("with two equal names is refused", async () => {
    const answer = await ask({ body: '{"text":"first","text":"last"}' });
    expect(answer.status).toBe(400);
    expect(answer.error).toMatchObject({ code: "invalid_json", message: expect.stringContaining("twice") });
  });

  test("a long name of a field is cut in the refusal, but not the words after it", async () => {
    const { error } = await ask({ body: JSON.stringify({ ["x".repeat(3_000)]: 1 }) });
    expect(error?.param).toMatch(/^x{100,200}…$/);
    expect(error?.message).toBe(`${error?.param} is no field here. Use one of: text, input.`);
  });

  test("half of a surrogate pair in a field's name is replaced", async () => {
    const { error } = await ask({ body: '{"\\ud800":1}' });
    expect(error?.param).toBe("\ufffd");
  });

  test("a query parameter is 400, by its name", async () => {
    for (const query of ["?text=x", "?text=x&text=y", "?a=1"]) {
      const answer = await ask({ path: runPath + query });
      expect(answer.status).toBe(400);
      expect(answer.error).toMatchObject({ code: "invalid_argument", param: query.slice(1).split("=")[0] });
    }
  });
});

test.each([
  ["/api/runs?page_size=x", "page_size", "page_size must be a whole number, as 10."],
  ["/api/runs?pageSize=-1", "page_size", "page_size must be 1 to 100, or 0 for 50."],
  ["/api/runs?limit=10", "limit", "limit is no parameter here. Use one of: pageSize, pageToken."],
  [
    "/api/runs/run_1fv0j56qgf3zjgkfrwasendm?wait=30",
    "wait",
    "wait must be a number of seconds and its unit s, as 30s or 1.5s.",
  ],
  [
    "/api/runs/run_1fv0j56qgf3zjgkfrwasendm?wiat=30s",
    "wiat",
    "wiat is no parameter here. The only one is wait.",
  ],
])(
  "GET %s names the parameter and what it must be, and does not speak of a body",
  async (path, param, message) => {
    const { status, error } = await ask({ method: "GET", path });
    expect({ status, param: error?.param, message: error?.message }).toEqual({ status: 400, param, message });
  },
);

describe("headers that count for nothing", () => {
  test("x-api-key is no key", async () => {
    const key = await keyrun.newKey(await keyrun.newTeam());
    const answer = await ask({ headers: { authorization: undefined, "x-api-key": key.value } });
    expect(answer.error).toMatchObject({ code: "missing_api_key" });
  });

  test("X-HTTP-Method-Override and Grpc-Timeout change nothing", async () => {
    const answer = await ask({ headers: { "x-http-method-override": "GET", "grpc-timeout": "0n" } });
    expect(answer.status).toBe(200);
    expect((await ask({ method: "GET", headers: { "x-http-method-override": "POST" } })).status).toBe(405);
  });

  test("an Origin gets no CORS headers, nor does a preflight", async () => {
    const origin = { origin: "https://example.com", "access-control-request-method": "POST" };
    for (const asked of [{ headers: origin }, { method: "OPTIONS", headers: origin }]) {
      const { headers } = await ask(asked);
      expect([...headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
    }
  });

  test("a cookie is never a credential", async () => {
    const key = await keyrun.newKey(await keyrun.newTeam());
    const answer = await ask({ headers: { authorization: undefined, cookie: `keyrun=${key.value}` } });
    expect(answer.error).toMatchObject({ code: "missing_api_key" });
  });
});

describe("two Authorization headers", () => {
  test("are malformed over HTTP/1.1, whichever is good", async () => {
    await ask();
    const { port } = new URL(keyrun.publicUrl);
    for (const order of [
      [authorization, "Bearer other"],
      ["Bearer other", authorization],
      [authorization, authorization],
    ]) {
      const socket = rawSocket({ port: Number(port) });
      const lines = order.map((value) => `authorization: ${value}\r\n`).join("");
      socket.send(`POST ${runPath} HTTP/1.1\r\nhost: x\r\n${lines}content-length: 12\r\n\r\n{"text":"x"}`);
      const [answer] = answersIn(await socket.until((heard) => answersIn(heard).length === 1));
      socket.socket.destroy();
      expect(answer).toMatchObject({ status: 401 });
      expect(JSON.parse(answer?.body ?? "").error.code).toBe("malformed_authorization");
    }
  });

  test("are malformed over HTTP/2, at both entries", async () => {
    await ask();
    const session = await h2cSession(keyrun.publicUrl);
    const two = { ":method": "POST", Authorization: [authorization, authorization] };
    const rest = await h2cRequest(session, { ...two, ":path": runPath }, '{"text":"x"}');
    expect(JSON.parse(rest.body).error.code).toBe("malformed_authorization");
    const rpc = await h2cRequest(
      session,
      {
        ...two,
        ":path": "/keyrun.v1.RunService/RunApp",
        "content-type": "application/json",
        "connect-protocol-version": "1",
      },
      '{"appId":"echo","text":"x"}',
    );
    expect(rpc.body).toContain("MALFORMED_AUTHORIZATION");
    session.destroy();
  });
});

describe("beside the API", () => {
  test("health and readiness answer only GET and HEAD", async () => {
    for (const path of ["/healthz", "/readyz", "/openapi.json"]) {
      expect((await fetch(keyrun.publicUrl + path)).status).toBe(200);
      expect((await fetch(keyrun.publicUrl + path, { method: "HEAD" })).status).toBe(200);
      const posted = await fetch(keyrun.publicUrl + path, { method: "POST" });
      expect(posted.status).toBe(405);
      expect(posted.headers.get("allow")).toBe("GET, HEAD");
    }
  });

  test("the OpenAPI document is compressed for a caller that can read that, and not sent again", async () => {
    const load = async (headers: Record<string, string>) => {
      const answer = await fetch(`${keyrun.publicUrl}/openapi.json`, { headers });
      const bytes = Number(answer.headers.get("content-length"));
      const told = [answer.status, answer.headers.get("content-encoding")];
      return { told, bytes, etag: answer.headers.get("etag"), document: await answer.text() };
    };
    const plain = await load({ "accept-encoding": "identity" });
    const br = await load({ "accept-encoding": "br, gzip" });
    const gzip = await load({ "accept-encoding": "br;q=0.1, gzip;q=1" });
    expect([plain, br, gzip].map(({ told }) => told)).toEqual([
      [200, null],
      [200, "br"],
      [200, "gzip"],
    ]);
    expect(JSON.parse(plain.document).openapi).toBe("3.1.0");
    expect([br.document, gzip.document]).toEqual([plain.document, plain.document]);
    expect(Math.max(br.bytes, gzip.bytes)).toBeLessThan(plain.bytes / 4);
    expect(new Set([plain.etag, br.etag, gzip.etag]).size).toBe(3);
    for (const tag of [br.etag ?? "", `W/${br.etag}, "x"`, "*"]) {
      expect((await load({ "accept-encoding": "br", "if-none-match": tag })).told).toEqual([304, null]);
    }
    const other = { "accept-encoding": "br", "if-none-match": String(plain.etag) };
    expect((await load(other)).told).toEqual([200, "br"]);
  });

  test.each([
    [undefined, "text/plain; version=0.0.4; charset=utf-8"],
    ["*/*", "text/plain; version=0.0.4; charset=utf-8"],
    ["application/openmetrics-text;q=0, */*", "text/plain; version=0.0.4; charset=utf-8"],
    ["application/openmetrics-text", "application/openmetrics-text; version=1.0.0; charset=utf-8"],
    [
      "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
      "application/openmetrics-text; version=1.0.0; charset=utf-8",
    ],
  ])("a reader of metrics that accepts %s gets %s", async (accept, type) => {
    const authorization = `Bearer ${keyrun.serviceToken}`;
    const headers = { authorization, ...(accept !== undefined && { accept }) };
    const answer = await fetch(`${keyrun.internalUrl}/metrics`, { headers });
    expect(answer.headers.get("content-type")).toBe(type);
    expect((await answer.text()).endsWith("# EOF\n")).toBe(type.startsWith("application/openmetrics-text"));
  });

  test("the internal listener has metrics for the service token, and no REST", async () => {
    const get = (path: string, token?: string) =>
      fetch(
        keyrun.internalUrl + path,
        token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } },
      );
    expect((await get("/metrics", keyrun.serviceToken)).status).toBe(200);
    expect((await get("/metrics")).status).toBe(401);
    expect((await get("/metrics", `${keyrun.serviceToken}x`)).status).toBe(401);
    expect((await get(runPath, keyrun.serviceToken)).status).toBe(404);
    expect((await fetch(`${keyrun.publicUrl}/metrics`)).status).toBe(404);
  });
});
