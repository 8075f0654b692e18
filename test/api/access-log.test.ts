import { beforeEach, describe, expect, test, vi } from "vitest";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { rawSocket } from "../harness/raw-socket.ts";
import { restStreamCallers } from "../harness/rest-stream-callers.ts";
import { connectStreamCallers, readAll } from "../harness/stream-callers.ts";
import { startTalkingApp } from "../harness/talking-app.ts";
import { everyCaller } from "./every-caller.ts";

interface Line {
  readonly entry: string;
  readonly route?: string;
  readonly status: number;
  readonly outcome?: string;
  readonly seconds?: number;
  readonly requestId?: string;
  readonly [name: string]: unknown;
}

const secretText = "the text that no line may have";
let seen = 0;

const app = closedAtEnd(await startTalkingApp());
const keyrun = closedAtEnd(
  await startKeyrun({
    settings: { KEYRUN_ACCESS_LOG: "true", KEYRUN_TRUST_PROXY: "1", KEYRUN_BODY_BYTES_MAX: "4096" },
  }),
);
await keyrun.apps.createApp({ app: { id: "talking", backend: app.backend } });
const key = await keyrun.newKey(await keyrun.newTeam());
await vi.waitUntil(() => keyrun.accessLines.length === 3, { timeout: 60_000 });

// A test waits for the line of each of its requests: none comes later.
beforeEach(() => {
  seen = keyrun.accessLines.length;
});

/** The lines of this test, once there are as many. */
async function lines(count: number): Promise<Line[]> {
  await expect.poll(() => keyrun.accessLines.length - seen).toBeGreaterThanOrEqual(count);
  const texts = keyrun.accessLines.slice(seen);
  for (const text of texts) {
    expect(text).not.toContain(key.value.split(".")[1]);
    expect(text).not.toContain(secretText);
  }
  const parsed: Line[] = texts.map((text) => JSON.parse(text));
  expect(parsed).toHaveLength(count);
  return parsed;
}

async function lineOf(requestId: string): Promise<Line> {
  const find = () => keyrun.accessLines.slice(seen).filter((text) => text.includes(`"${requestId}"`));
  await expect.poll(() => find().length).toBeGreaterThanOrEqual(1);
  expect(find()).toHaveLength(1);
  expect(find()[0]).not.toContain(secretText);
  return JSON.parse(find()[0] ?? "");
}

describe.each(Object.entries(everyCaller))("%s", (name, make) => {
  const isRest = name.startsWith("REST");
  const entry = isRest ? "rest" : name.startsWith("Connect") ? "connect" : "grpc";
  const route = isRest ? "/api/apps/{app_id}/run" : "/keyrun.v1.RunService/RunApp";

  async function run(requestId: string, order: { appId?: string; value?: string }): Promise<Line> {
    const caller = make(isRest ? keyrun.publicUrl : keyrun.internalUrl);
    await caller.run({
      appId: order.appId ?? "echo",
      text: secretText,
      authorization: `Bearer ${order.value ?? key.value}`,
      headers: { "x-request-id": requestId, "x-forwarded-for": "192.0.2.7" },
    });
    const line = await lineOf(requestId);
    caller.close();
    expect(line).toMatchObject({ level: "info", msg: "request", entry, method: "POST", route });
    expect(line).toMatchObject({ address: "192.0.2.7" });
    expect(Date.parse(String(line.time))).toBeGreaterThan(0);
    expect(line.seconds).toBeGreaterThan(0);
    return line;
  }

  const id = (about: string) => `${about}-${name.replaceAll(/[^A-Za-z0-9]/g, "-")}`;
  const httpStatus = (status: number) => (entry === "grpc" ? 200 : status);
  const grpc = (grpcCode: number) => (entry === "grpc" ? { grpcCode } : {});

  test("a run has one line, with its team, key and app", async () => {
    const { id: keyId, teamId } = key;
    const line = await run(id("ok"), {});
    expect(line).toMatchObject({ outcome: "OK", status: 200, keyId, teamId, appId: "echo", ...grpc(0) });
  });

  test("a run without a valid key has one line, without a team", async () => {
    const line = await run(id("unknown"), { value: keyrun.unknownKey() });
    expect(line).toMatchObject({ outcome: "INVALID_API_KEY", status: httpStatus(401), ...grpc(16) });
    expect(line).not.toHaveProperty("teamId");
    expect(line).not.toHaveProperty("keyId");
  });

  test("a run of an app that does not exist has one line, without the name", async () => {
    const line = await run(id("absent"), { appId: "no-such-app" });
    expect(line).toMatchObject({ outcome: "APP_NOT_FOUND", status: httpStatus(404), keyId: key.id });
    expect(JSON.stringify(line)).not.toContain("no-such-app");
  });

  test("a run that the limit refuses has one line, with the team and the key that met it", async () => {
    const team = await keyrun.newTeam();
    const busy = await keyrun.newKey(team);
    await keyrun.keys.verifyKey({ value: busy.value, cost: 60 });
    await lines(3);
    const line = await run(id("limited"), { value: busy.value });
    const facts = { outcome: "RATE_LIMIT_EXCEEDED", teamId: team, keyId: busy.id };
    expect(line).toMatchObject({ ...facts, status: httpStatus(429), ...grpc(8) });
  });
});

describe.each(Object.entries({ ...restStreamCallers, ...connectStreamCallers }))(
  "a stream, %s",
  (name, make) => {
    const isRest = name in restStreamCallers;

    function open(requestId: string) {
      const caller = make(isRest ? keyrun.publicUrl : keyrun.internalUrl);
      const headers = { "x-request-id": requestId };
      const authorization = `Bearer ${key.value}`;
      return { caller, stream: caller.open({ appId: "talking", text: requestId, authorization, headers }) };
    }

    test("has its line when it ends", async () => {
      const requestId = `stream-${name.replaceAll(/[^A-Za-z0-9]/g, "-")}`;
      const { caller, stream } = open(requestId);
      const first = stream.next();
      const talk = await app.talk(requestId);
      talk.say("a");
      await first;
      expect(keyrun.accessLines.slice(seen).filter((text) => text.includes(requestId))).toEqual([]);
      talk.end();
      await readAll(stream);
      expect(await lineOf(requestId)).toMatchObject({ outcome: "OK", status: 200, appId: "talking" });
      caller.close();
    });

    test("has its line when its caller leaves", async () => {
      const requestId = `left-${name.replaceAll(/[^A-Za-z0-9]/g, "-")}`;
      const { caller, stream } = open(requestId);
      const first = stream.next();
      const talk = await app.talk(requestId);
      talk.say("a");
      await first;
      stream.leave();
      expect(await lineOf(requestId)).toMatchObject({ outcome: "CANCELLED", status: 200, keyId: key.id });
      caller.close();
    });
  },
);

test("the line of an answer, whole or streamed, has the bytes of its body", async () => {
  const ask = async (call: string, requestId: string) => {
    const answer = await fetch(`${keyrun.publicUrl}/api/apps/echo/${call}`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${key.value}`,
        "content-type": "application/json",
        "x-request-id": requestId,
      },
      body: JSON.stringify({ text: "naïve ".repeat(400) }),
    });
    return (await answer.arrayBuffer()).byteLength;
  };
  for (const call of ["run", "stream"]) {
    const bytes = await ask(call, `bytes-${call}`);
    expect(bytes).toBeGreaterThan(2_800);
    expect(await lineOf(`bytes-${call}`)).toMatchObject({ outcome: "OK", bytes });
  }
});

describe("a request that is no run", () => {
  const get = async (path: string, init: RequestInit = {}) => {
    await (await fetch(`${keyrun.publicUrl}${path}`, { redirect: "manual", ...init })).text();
  };

  test("to a path that does not exist has one line, without the path", async () => {
    await get(`/${secretText.replaceAll(" ", "/")}?a=${key.value}`);
    expect(await lines(1)).toMatchObject([
      { entry: "rest", method: "GET", route: "(no route)", status: 404, outcome: "NOT_FOUND" },
    ]);
  });

  test("with a wrong method, a wrong type, wrong JSON, a body too large: one line each", async () => {
    const authorization = `Bearer ${key.value}`;
    const path = `/api/apps/echo/run`;
    const json = { "content-type": "application/json", authorization };
    await get(path);
    await get(path, { method: "POST", headers: { authorization, "content-type": "text/x" }, body: "x" });
    await get(path, { method: "POST", headers: json, body: secretText });
    await get(path, { method: "POST", headers: json, body: secretText.repeat(1_000) });
    await get(path, { method: "POST", body: "{}" });
    const route = "/api/apps/{app_id}/run";
    expect(await lines(5)).toMatchObject([
      { route, method: "GET", status: 405, outcome: "METHOD_NOT_ALLOWED" },
      { route, status: 415, outcome: "UNSUPPORTED_MEDIA_TYPE" },
      { route, status: 400, outcome: "INVALID_JSON" },
      { route, status: 413, outcome: "REQUEST_TOO_LARGE" },
      { route, status: 401, outcome: "MISSING_API_KEY" },
    ]);
  });

  test("by an internal service has one line", async () => {
    await keyrun.teams.listTeams({});
    expect(await lines(1)).toMatchObject([
      { entry: "grpc", route: "/keyrun.v1.TeamService/ListTeams", status: 200, grpcCode: 0, outcome: "OK" },
    ]);
  });

  test("for the metrics has one line, and a probe has none", async () => {
    await get("/healthz");
    await get("/readyz");
    await keyrun.metric("keyrun_runs_running");
    expect(await lines(1)).toMatchObject([{ route: "/metrics", method: "GET", status: 200 }]);
  });

  test("that is refused by its head has one line", async () => {
    const raw = rawSocket({ port: Number(new URL(keyrun.publicUrl).port) });
    raw.send("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    await raw.closed();
    expect(await lines(1)).toMatchObject([{ status: 400, outcome: "MALFORMED_REQUEST", route: "/" }]);
  });

  test("whose bytes are no request has one line, without them", async () => {
    const raw = rawSocket({ port: Number(new URL(keyrun.publicUrl).port) });
    raw.send(`GET / HTTP/1.1\r\n${key.value}\r\n\r\n`);
    await raw.closed();
    const [line] = await lines(1);
    expect(line).toMatchObject({ entry: "rest", status: 400, address: "127.0.0.1" });
    expect(line).not.toHaveProperty("route");
  });

  test("whose caller leaves before it is answered has one line", async () => {
    const raw = rawSocket({ port: Number(new URL(keyrun.publicUrl).port) });
    const body = JSON.stringify({ text: "leaving" });
    raw.send(
      `POST /api/apps/talking/run HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key.value}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    await app.talk("leaving");
    raw.socket.destroy();
    expect(await lines(1)).toMatchObject([{ status: 499, outcome: "CANCELLED", appId: "talking" }]);
  });

  test("whose id may be a key gets another id in its line", async () => {
    await get("/healthy", { headers: { "x-request-id": key.value } });
    const [line] = await lines(1);
    expect(line?.requestId).not.toContain(key.id);
  });
});

test("the access log is off by default", async () => {
  const quiet = await startKeyrun();
  await fetch(`${quiet.publicUrl}/api/apps`).then((response) => response.text());
  await quiet.close();
  expect(quiet.accessLines).toEqual([]);
});
