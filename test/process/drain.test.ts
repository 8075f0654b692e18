import { Agent, request } from "node:http";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { connectCallers } from "../harness/callers.ts";
import { h2cRequest, h2cSession } from "../harness/h2c-client.ts";
import { withAuthorization } from "../harness/keyrun.ts";
import {
  isOverloaded,
  keyrunCommand,
  restRun,
  type ServingKeyrun,
  type Settings,
  serveKeyrun,
  statusOf,
} from "../harness/keyrun-process.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

const folders = createTempFolders();
const running: ServingKeyrun[] = [];
let app: Awaited<ReturnType<typeof startScriptedApp>>;

beforeAll(async () => {
  app = await startScriptedApp();
});
afterEach(async () => {
  for (const each of running.splice(0)) {
    each.kill("SIGKILL");
    await each.exited;
  }
});
afterAll(async () => {
  await app.close();
  folders.remove();
});

/** Starts Keyrun with a key and the app `scripted`, which answers when the test says so. */
async function serve(settings: Settings = {}) {
  const keyrun = await serveKeyrun(folders.create(), {
    KEYRUN_PLAN_LIMITS: "free=100000",
    ...settings,
  });
  running.push(keyrun);
  const sessionManager = new Http2SessionManager(keyrun.internalUrl);
  const interceptors = [withAuthorization(`Bearer ${keyrun.serviceToken()}`)];
  const transport = createGrpcTransport({ baseUrl: keyrun.internalUrl, sessionManager, interceptors });
  await createClient(AppService, transport).createApp({ app: { id: "scripted", backend: app.backend } });
  sessionManager.abort();
  const created = await keyrunCommand({ KEYRUN_DATA_DIR: keyrun.dataDir }, [
    "keys",
    "create",
    "--team",
    "demo",
  ]);
  return { keyrun, value: created.stdout.trim() };
}

const ended = { code: 0, signal: null };
const connectionsUnderLoad = 8;

// A pause of the machine makes Keyrun refuse what has come meanwhile, whether it drains or not.
describe("SIGTERM under load", () => {
  test("fails no request over HTTP/1.1: each connection announces its close in a response", async () => {
    const { keyrun, value } = await serve();
    let answered = 0;
    const loads = Array.from({ length: connectionsUnderLoad }, async () => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      for (let open = true; open; answered += 1) {
        const { status, body, closes } = await postOn(agent, keyrun.publicUrl, value);
        if (!isOverloaded({ body })) expect(status).toBe(200);
        open = !closes;
      }
      agent.destroy();
    });
    while (answered < 20 * connectionsUnderLoad) await statusOf(`${keyrun.publicUrl}/healthz`);
    keyrun.kill("SIGTERM");
    await Promise.all(loads);
    expect(await keyrun.exited).toEqual(ended);
    const warnings = keyrun
      .stderr()
      .split("\n")
      .filter((line) => line.includes('"level":"warn"'));
    expect(warnings.filter((line) => !line.includes("the event loop is"))).toEqual([]);
  });

  test("fails no request over HTTP/2: a request sent after the GOAWAY is refused unread, so clients send it again", async () => {
    const { keyrun, value } = await serve();
    let answered = 0;
    const loads = Array.from({ length: connectionsUnderLoad }, async () => {
      const session = await h2cSession(keyrun.publicUrl);
      const headers = {
        ":method": "POST",
        ":path": "/api/apps/echo/run",
        authorization: `Bearer ${value}`,
        "content-type": "application/json",
      };
      while (!session.closed) {
        const outcome = await h2cRequest(session, headers, '{"text":"x"}').then(
          ({ status, body }) => (isOverloaded({ body }) ? "overloaded" : status),
          (error) => String(error),
        );
        if (outcome === 200) answered += 1;
        else if (outcome !== "overloaded") expect(outcome).toContain("NGHTTP2_REFUSED_STREAM");
      }
      session.destroy();
    });
    while (answered < 20 * connectionsUnderLoad) await statusOf(`${keyrun.publicUrl}/healthz`);
    keyrun.kill("SIGTERM");
    await Promise.all(loads);
    expect(await keyrun.exited).toEqual(ended);
  });
});

test("with a drain delay /readyz fails at once, and new connections are served until the delay is over", async () => {
  const { keyrun, value } = await serve({ KEYRUN_DRAIN_DELAY_MS: "4000" });
  keyrun.kill("SIGTERM");
  let ready = 200;
  while (ready === 200) ready = await statusOf(`${keyrun.publicUrl}/readyz`);
  expect(ready).toBe(503);
  const { status } = await postOn(new Agent({ keepAlive: false }), keyrun.publicUrl, value);
  expect(status).toBe(200);
  expect(await statusOf(`${keyrun.publicUrl}/healthz`)).toBe(200);
  expect(await keyrun.exited).toEqual(ended);
});

test("a run that ends within the drain is answered", async () => {
  const { keyrun, value } = await serve();
  const run = restRun(keyrun.publicUrl, { value, appId: "scripted", text: "wait" });
  await app.waits(1);
  keyrun.kill("SIGTERM");
  await keyrun.until(() => keyrun.stderr().includes('"msg":"draining"'));
  app.release();
  expect(await run).toMatchObject({ status: 200, body: expect.stringContaining("released") });
  expect(await keyrun.exited).toEqual(ended);
});

test("runs past the drain's time get 503 and must not be repeated, over REST and gRPC", async () => {
  const { keyrun, value } = await serve({ KEYRUN_DRAIN_MS_MAX: "200" });
  const caller = (connectCallers.gRPC ?? expect.fail())(keyrun.publicUrl);
  const rest = restRun(keyrun.publicUrl, { value, appId: "scripted", text: "wait" });
  const rpc = caller.run({ appId: "scripted", text: "wait", authorization: `Bearer ${value}` });
  await app.waits(2);
  keyrun.kill("SIGTERM");
  const { status, headers, body } = await rest;
  expect(status).toBe(503);
  expect(headers.get("x-should-retry")).toBe("false");
  expect(headers.get("retry-after")).toBe("1");
  expect(headers.get("ratelimit-policy")).toContain('"team"');
  expect(JSON.parse(body).error.code).toBe("unavailable");
  const outcome = await rpc;
  expect(outcome).toMatchObject({ kind: "refused", details: [{ reason: "UNAVAILABLE" }, {}] });
  expect(outcome.headers.get("x-should-retry")).toBe("false");
  expect(await keyrun.exited).toEqual(ended);
  expect(keyrun.stderr()).toContain('"aborted":2');
  caller.close();
});

test("two signals in quick succession count as one, as for Ctrl-C under npm", async () => {
  const { keyrun, value } = await serve();
  const run = restRun(keyrun.publicUrl, { value, appId: "scripted", text: "wait" });
  await app.waits(1);
  // The kernel may merge two signals of the same kind, but delivers two different ones.
  keyrun.kill("SIGINT");
  keyrun.kill("SIGTERM");
  await keyrun.until(() => keyrun.stderr().includes('"msg":"draining"'));
  app.release();
  expect((await run).status).toBe(200);
  expect(await keyrun.exited).toEqual(ended);
});

test("a later second signal exits at once, with status 1", async () => {
  const { keyrun, value } = await serve({ KEYRUN_DRAIN_MS_MAX: "600000" });
  const run = restRun(keyrun.publicUrl, { value, appId: "scripted", text: "wait" }).catch(() => "cut off");
  await app.waits(1);
  keyrun.kill("SIGTERM");
  await keyrun.until(() => keyrun.stderr().includes('"msg":"draining"'));
  const again = setInterval(() => keyrun.kill("SIGTERM"), 50);
  expect(await keyrun.exited).toEqual({ code: 1, signal: null });
  clearInterval(again);
  expect(await run).toBe("cut off");
});

test("last uses are written before the process ends", async () => {
  const { keyrun, value } = await serve();
  await restRun(keyrun.publicUrl, { value });
  keyrun.kill("SIGTERM");
  await keyrun.exited;
  const { dataDir } = await serveAgain(keyrun.dataDir);
  const list = await keyrunCommand({ KEYRUN_DATA_DIR: dataDir }, [
    "keys",
    "list",
    "--team",
    "demo",
    "--json",
  ]);
  expect(JSON.parse(list.stdout).keys[0]).toHaveProperty("lastUseTime");
});

async function serveAgain(dataDir: string): Promise<ServingKeyrun> {
  const keyrun = await serveKeyrun(dataDir);
  running.push(keyrun);
  return keyrun;
}

/**
 * Sends one run on the agent's connection, and returns whether the response announces its close.
 */
function postOn(agent: Agent, publicUrl: string, value: string) {
  return new Promise<{ status: number | undefined; body: string; closes: boolean }>((resolve, reject) => {
    const { hostname, port } = new URL(publicUrl);
    const headers = { authorization: `Bearer ${value}`, "content-type": "application/json" };
    const options = { hostname, port, path: "/api/apps/echo/run", method: "POST", agent, headers };
    const sent = request(options, (answer) => {
      const { statusCode: status, headers: received } = answer;
      let body = "";
      answer.setEncoding("utf8").on("data", (text: string) => {
        body += text;
      });
      answer.on("end", () => resolve({ status, body, closes: received.connection === "close" }));
    });
    sent.on("error", reject).end('{"text":"x"}');
  });
}
