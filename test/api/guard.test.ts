import { METHODS } from "node:http";
import { connect } from "node:net";
import { Code } from "@connectrpc/connect";
import { beforeAll, describe, expect, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { h2cRequest, h2cSession } from "../harness/h2c-client.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { answersIn, type RawAnswer, rawSocket } from "../harness/raw-socket.ts";
import { restCaller } from "../harness/rest-caller.ts";
import { restStreamCallers } from "../harness/rest-stream-callers.ts";
import { connectStreamCallers, streamedRuns } from "../harness/stream-callers.ts";
import { backgroundCallers } from "./background-callers.ts";
import { everyCaller } from "./every-caller.ts";
import { asks, createGuard, type GuardAsk } from "./guards.ts";

const keyrun = closedAtEnd(await startKeyrun());
await createGuard(keyrun, "orders");
const port = Number(new URL(keyrun.publicUrl).port);

let key = { id: "", teamId: "", value: "" };
beforeAll(async () => {
  key = await keyrun.newKey(await keyrun.newTeam(Plan.ENTERPRISE));
});

/** One request on a connection of its own, exactly as written. */
async function ask(given: GuardAsk = {}): Promise<RawAnswer> {
  const socket = rawSocket({ port });
  socket.send(asks({ key: key.value, ...given }));
  const heard = await socket.until((text) => answersIn(text).length === 1);
  socket.socket.destroy();
  return answersIn(heard)[0]!;
}

test("a request that may pass is answered with an empty body, four headers about its caller, and the limit", async () => {
  const { status, headers, body } = await ask({ headers: ["X-Request-Id: mine"] });
  expect({ status, body }).toEqual({ status: 200, body: "" });
  expect(Object.fromEntries(headers)).toMatchObject({
    "x-keyrun-team": key.teamId,
    "x-keyrun-key": key.id,
    "x-keyrun-app": "orders",
    "x-keyrun-plan": "enterprise",
    "x-request-id": "mine",
    "cache-control": "no-store",
    "content-length": "0",
    "ratelimit-limit": "3000",
    "ratelimit-policy": '"team";q=3000;w=60',
  });
  expect(headers.has("x-keyrun-status")).toBe(false);
});

describe("what the request line may be", () => {
  const named = METHODS.filter((method) => method !== "CONNECT");

  test.each(named)("%s is answered", async (method) => {
    expect(await ask({ method })).toMatchObject({ status: 200, body: "" });
  });

  test("CONNECT is refused", async () => {
    expect((await ask({ method: "CONNECT", target: "/api/apps/orders/guard" })).status).toBe(405);
  });

  test.each(["", "/", "?key=mine&%zz", "/a/b?c=d", "/%zz", "/../../echo/run", "//../guard", "/%2e%2e/%00"])(
    "what follows the path of a guard is neither decoded nor checked: %s",
    async (suffix) => {
      const answer = await ask({ target: `/api/apps/orders/guard${suffix}` });
      expect(answer.status).toBe(200);
      expect(answer.headers.get("x-keyrun-app")).toBe("orders");
    },
  );

  test("8 KiB may follow the path", async () => {
    const target = `/api/apps/orders/guard/${"a".repeat(8 * 1024)}`;
    expect((await ask({ target })).status).toBe(200);
  });

  test.each([
    "/api/apps/orders/guard%2f",
    "/api/apps/orders/guard%2Frun",
    "/api/apps/orders/%67uard",
    "/api/apps/%6frders/guard",
    "/api/apps/orders%2f/guard",
    "/api/apps//guard",
    "/api/apps/orders/guards",
    "/api/apps/orders/guard;a",
    "/%61pi/apps/orders/guard",
    "/api/apps/x/../orders/guard",
  ])("another spelling is no guard: %s", async (target) => {
    expect((await ask({ target, headers: ["X-Keyrun-Denials: 403"] })).status).toBe(404);
  });

  test("a target in absolute form is answered", async () => {
    expect((await ask({ target: "http://localhost/api/apps/orders/guard/x" })).status).toBe(200);
  });
});

describe("the connection", () => {
  const twice = async (given: GuardAsk) => {
    const socket = rawSocket({ port });
    for (const count of [1, 2]) {
      socket.send(asks({ key: key.value, ...given }));
      await socket.until((text) => answersIn(text).length === count);
    }
    socket.socket.destroy();
    return answersIn(socket.heard()).map(({ status }) => status);
  };

  test.each<[string, GuardAsk]>([
    ["without a body", {}],
    [
      "with a body that comes with its head",
      { method: "POST", headers: ["Content-Length: 4"], body: "text" },
    ],
    [
      "with a body in chunks that comes with its head",
      { method: "PUT", headers: ["Transfer-Encoding: chunked"], body: "4\r\ntext\r\n0\r\n\r\n" },
    ],
    ["that would be upgraded", { headers: ["Connection: Upgrade", "Upgrade: websocket"] }],
    [
      "that would be upgraded to HTTP/2",
      { headers: ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c"] },
    ],
    ["of HTTP/1.0 that asks for it", { version: "1.0", headers: ["Connection: keep-alive"] }],
  ])("stays open after a request %s", async (_, given) => {
    expect(await twice(given)).toEqual([200, 200]);
  });

  test("closes after a request of HTTP/1.0, which may have no Host", async () => {
    const socket = rawSocket({ port });
    socket.send(asks({ key: key.value, version: "1.0", host: undefined }));
    expect(answersIn(await socket.closed())).toMatchObject([{ status: 200 }]);
  });

  test.each([
    ["POST", "Content-Length: 1000000"],
    ["HEAD", "Content-Length: 1000000"],
    ["POST", "Transfer-Encoding: chunked"],
    ["PUT", "Content-Length: 4\r\nExpect: 100-continue"],
  ])(
    "closes after an answered %s whose body is announced and not sent, with %s: the next request could be taken for it",
    async (method, announced) => {
      const socket = rawSocket({ port });
      socket.send(asks({ key: key.value, method, headers: [announced] }));
      const heard = await socket.until((text) => text.includes("\r\n\r\n"));
      expect(heard).toMatch(/^HTTP\/1\.1 200 /);
      expect(heard).toContain("Connection: close");
      // What a proxy sends that does not heed this is no second request.
      socket.send(asks({ key: key.value }));
      socket.socket.end();
      expect(await socket.closed()).toBe(heard);
    },
  );

  test("is told at once that a large upload may pass, before any of it is sent, and it is not read", async () => {
    const sent = 100 * 1024 * 1024;
    const socket = connect({ port, host: "127.0.0.1" });
    socket.on("error", () => {});
    let heard = "";
    socket.setEncoding("latin1").on("data", (text) => {
      heard += text;
    });
    socket.write(asks({ key: key.value, method: "PUT", headers: [`Content-Length: ${sent}`] }));
    await expect.poll(() => answersIn(heard).map(({ status }) => status)).toEqual([200]);
    const closed = new Promise((resolve) => socket.once("close", resolve));
    const chunk = Buffer.alloc(1024 * 1024);
    for (let left = 100; left > 0 && !socket.destroyed; left -= 1) {
      if (!socket.write(chunk))
        await Promise.race([new Promise((resolve) => socket.once("drain", resolve)), closed]);
    }
    await closed;
    expect(socket.bytesWritten).toBeLessThan(sent);
    expect(answersIn(heard)).toHaveLength(1);
  });

  test("of HTTP/2 takes any method, with a body that is not read", async () => {
    const session = await h2cSession(keyrun.publicUrl);
    for (const method of ["GET", "PROPFIND", "ANYTHING"]) {
      const headers = {
        ":method": method,
        ":path": "/api/apps/orders/guard/x",
        authorization: `Bearer ${key.value}`,
      };
      const {
        status,
        headers: got,
        body,
      } = await h2cRequest(session, headers, method === "GET" ? undefined : "a body");
      expect({ method, status, body }).toEqual({ method, status: 200, body: "" });
      expect(got["x-keyrun-team"]).toBe(key.teamId);
    }
    session.destroy();
  });
});

/** A refusal, without the header and with it that makes each a denial of the proxy. */
async function refusals(given: GuardAsk) {
  const plain = await ask(given);
  const denied = await ask({ ...given, headers: [...(given.headers ?? []), "X-Keyrun-Denials: 403"] });
  const facts = ({ status, headers, body }: RawAnswer) => ({
    status,
    code: body === "" ? undefined : JSON.parse(body).error.code,
    said: [headers.get("x-keyrun-status"), headers.get("x-keyrun-code")],
    cache: headers.get("cache-control"),
  });
  return { plain, denied, facts: [facts(plain), facts(denied)] };
}

function both(status: number, code: string, shown = 403) {
  const cache = "no-store";
  return [
    { status, code, said: [undefined, undefined], cache },
    { status: shown, code, said: [String(status), code], cache },
  ];
}

describe("a refusal is that of a run, and with X-Keyrun-Denials every one but 401 is a 403 that says what it was", () => {
  test.each<[string, GuardAsk, string]>([
    ["no key", { key: "" }, "missing_api_key"],
    [
      "a header that can't be read",
      { key: "", headers: ["Authorization: Basic eDp5"] },
      "malformed_authorization",
    ],
    ["two headers", { headers: ["Authorization: Bearer x"] }, "malformed_authorization"],
    ["half a key", { key: "svc_half" }, "invalid_api_key"],
  ])("%s: 401", async (_, given, code) => {
    const { plain, facts } = await refusals(given);
    expect(facts).toEqual(both(401, code, 401));
    expect(plain.headers.get("www-authenticate")).toContain("Bearer");
    expect(plain.headers.get("ratelimit-policy")).toMatch(/^"address";/);
  });

  test("an unknown key, and one that was revoked: 401", async () => {
    expect((await refusals({ key: keyrun.unknownKey() })).facts).toEqual(both(401, "invalid_api_key", 401));
    const { id, teamId, value } = await keyrun.newKey("demo");
    expect((await ask({ key: value })).status).toBe(200);
    await keyrun.keys.revokeKey({ teamId, keyId: id });
    expect((await refusals({ key: value })).facts).toEqual(both(401, "revoked_api_key", 401));
  });

  test("a key that is restricted to other apps: 403, whether or not the app exists", async () => {
    const { value } = await keyrun.newKey(key.teamId, { appIds: ["echo"] });
    for (const appId of ["orders", "nowhere"]) {
      const { facts } = await refusals({ key: value, target: `/api/apps/${appId}/guard` });
      expect(facts).toEqual(both(403, "app_not_allowed"));
    }
    const { value: allowed } = await keyrun.newKey(key.teamId, { appIds: ["orders"] });
    expect((await ask({ key: allowed })).status).toBe(200);
  });

  test("an app that there is not, or that is for other teams: 404, in the same words", async () => {
    await keyrun.teams.createTeam({ team: { id: "acme" } });
    await createGuard(keyrun, "of-acme", ["acme"]);
    const words = [];
    for (const appId of ["nowhere", "No_App", "of-acme"]) {
      const { facts, plain } = await refusals({ target: `/api/apps/${appId}/guard/x` });
      expect(facts).toEqual(both(404, "app_not_found"));
      words.push(JSON.parse(plain.body).error.message.replace(appId, "it"));
    }
    expect(new Set(words).size).toBe(1);
  });

  test("an app that is run: 400, in words; it counts", async () => {
    const { facts, plain, denied } = await refusals({ target: "/api/apps/echo/guard" });
    expect(facts).toEqual(both(400, "invalid_argument"));
    expect(JSON.parse(plain.body).error).toMatchObject({
      param: "app_id",
      message: expect.stringContaining("POST /api/apps/<app_id>/run"),
    });
    const left = [plain, denied].map(({ headers }) => Number(headers.get("ratelimit-remaining")));
    expect(left[0]! - left[1]!).toBe(1);
  });

  test("past the limit of the team: 429, with the wait", async () => {
    const { value } = await keyrun.newKey(await keyrun.newTeam(), { requestsPerMinute: 1 });
    expect((await ask({ key: value })).status).toBe(200);
    const { plain, denied, facts } = await refusals({ key: value });
    expect(facts).toEqual(both(429, "rate_limit_exceeded"));
    for (const { headers } of [plain, denied]) {
      expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
      expect(headers.get("ratelimit-policy")).toContain('"key";q=1;w=60');
    }
  });

  test("any other value of the header has no effect, and a request that may pass says 200", async () => {
    expect((await ask({ key: "", headers: ["X-Keyrun-Denials: 500"] })).headers.has("x-keyrun-status")).toBe(
      false,
    );
    const passed = await ask({ headers: ["X-Keyrun-Denials: 403"] });
    expect([passed.status, passed.headers.get("x-keyrun-status")]).toEqual([200, "200"]);
    expect(passed.headers.has("x-keyrun-code")).toBe(false);
  });

  test("a refusal has none of the headers about a caller", async () => {
    for (const given of [{ key: "" }, { target: "/api/apps/echo/guard" }]) {
      const { headers } = await ask(given);
      expect([...headers.keys()].filter((name) => name.startsWith("x-keyrun-"))).toEqual([]);
    }
  });

  test("it has the form of RFC 9457 for a caller that wants it", async () => {
    const { headers, body } = await ask({ key: "", headers: ["Accept: application/problem+json"] });
    expect(headers.get("content-type")).toBe("application/problem+json");
    expect(JSON.parse(body)).toMatchObject({ status: 401, code: "missing_api_key" });
  });
});

describe("a guard is not run", () => {
  const streamed = { ...restStreamCallers, ...connectStreamCallers };
  const callers = {
    ...everyCaller,
    ...Object.fromEntries(
      Object.entries(streamed).map(([name, make]) => [`a stream of ${name}`, streamedRuns(make)]),
    ),
  };

  test.each(Object.entries(callers))("by %s: it says where to call, and counts", async (_, make) => {
    const caller = make(keyrun.publicUrl);
    const authorization = `Bearer ${key.value}`;
    const outcome = await caller.run({ appId: "orders", text: "x", authorization });
    expect(outcome).toMatchObject({
      kind: "refused",
      code: Code.InvalidArgument,
      message: expect.stringContaining("Call the service at its own address, with the same API key."),
    });
    expect(outcome.headers.get("ratelimit-policy")).toMatch(/^"team";/);
    caller.close();
  });

  test.each(Object.entries(backgroundCallers))("in the background, by %s", async (name, make) => {
    const url = name.startsWith("REST") ? keyrun.publicUrl : keyrun.internalUrl;
    const caller = make(url, key.value);
    expect((await caller.start({ appId: "orders", text: "x" })).reason).toBe("INVALID_ARGUMENT");
    expect((await caller.list()).runs).toEqual([]);
  });

  test.each([{}, { connectOnly: true }])("by apps check %o", async (more) => {
    const check = keyrun.apps.checkApp({ appId: "orders", text: "x", ...more });
    await expect(check).rejects.toMatchObject({ code: Code.InvalidArgument });
  });

  test("after an app has become one: a run that begins then is refused", async () => {
    await keyrun.apps.createApp({ app: { id: "turned", backend: { kind: { case: "echo", value: {} } } } });
    const caller = restCaller(keyrun.publicUrl);
    const run = () => caller.run({ appId: "turned", text: "x", authorization: `Bearer ${key.value}` });
    expect((await run()).kind).toBe("ok");
    const app = { id: "turned", backend: { kind: { case: "guard", value: {} } } } as const;
    await keyrun.apps.updateApp({ app, updateMask: { paths: ["backend"] } });
    expect((await run()).kind).toBe("refused");
    expect((await ask({ target: "/api/apps/turned/guard" })).status).toBe(200);
    await keyrun.apps.deleteApp({ appId: "turned" });
    expect((await ask({ target: "/api/apps/turned/guard" })).status).toBe(404);
  });
});
