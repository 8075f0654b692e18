import { Agent, request } from "node:http";
import { expect, test } from "vitest";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { h2cRequest, h2cSession } from "../harness/h2c-client.ts";
import { manage } from "../harness/keyrun.ts";
import { keyrunPlaces } from "../harness/keyrun-places.ts";
import { isOverloaded, restRun, type Settings, statusOf } from "../harness/keyrun-process.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";

const places = keyrunPlaces();

const app = closedAtEnd(await startScriptedApp());

/** Starts Keyrun with a key and the app `scripted`, which answers when the test says so. */
async function serve(settings: Settings = {}) {
  const place = places.place({ KEYRUN_PLAN_LIMITS: "free=100000", ...settings });
  const keyrun = await place.start();
  const { apps, newKey, disconnect } = manage(keyrun.internalUrl, keyrun.serviceToken());
  await apps.createApp({ app: { id: "scripted", backend: app.backend } });
  const { value } = await newKey("demo");
  disconnect();
  return { keyrun, value };
}

const ended = { code: 0, signal: null };
const connectionsUnderLoad = 8;

// A pause of the machine makes Keyrun refuse what has come meanwhile, whether it drains or not.
test("SIGTERM under load fails no request, and each that was answered has its line in the access log", async () => {
  const { keyrun, value } = await serve({ KEYRUN_ACCESS_LOG: "true" });
  const answered = { http1: 0, http2: 0, overloaded: 0 };
  // Over HTTP/1.1 each connection announces its close in a response.
  const http1 = async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    for (let open = true; open; ) {
      const { status, body, closes } = await postOn(agent, keyrun.publicUrl, value);
      const kind = isOverloaded({ body }) ? "overloaded" : "http1";
      if (kind === "http1") expect(status).toBe(200);
      answered[kind] += 1;
      open = !closes;
    }
    agent.destroy();
  };
  // Over HTTP/2 a request sent after the GOAWAY is refused unread, so clients send it again.
  const http2 = async () => {
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
      if (outcome === 200) answered.http2 += 1;
      else if (outcome === "overloaded") answered.overloaded += 1;
      else expect(outcome).toContain("NGHTTP2_REFUSED_STREAM");
    }
    session.destroy();
  };
  const loads = Array.from({ length: connectionsUnderLoad }, () => [http1(), http2()]).flat();
  await expect
    .poll(() => Math.min(answered.http1, answered.http2))
    .toBeGreaterThan(20 * connectionsUnderLoad);
  keyrun.kill("SIGTERM");
  await Promise.all(loads);
  expect(await keyrun.exited).toEqual(ended);
  const lines = keyrun.stderr().trimEnd().split("\n");
  const warnings = lines.filter((line) => line.includes('"level":"warn"'));
  expect(warnings.filter((line) => !line.includes("the event loop is"))).toEqual([]);
  const logged = lines.map((line) => JSON.parse(line));
  expect(logged.map(({ msg }) => msg)).toContain("draining");
  const runs = logged.filter(({ route }) => route === "/api/apps/{app_id}/run");
  expect(runs).toHaveLength(answered.http1 + answered.http2 + answered.overloaded);
  expect(keyrun.stderr()).not.toContain(value.split(".")[1]);
});

test("two signals in quick succession count as one, as for Ctrl-C under npm, and a run that ends within the drain is answered", async () => {
  const { keyrun, value } = await serve();
  const run = restRun(keyrun.publicUrl, { value, appId: "scripted", text: "wait" });
  await app.waits(1);
  // The kernel may merge two signals of the same kind, but delivers two different ones.
  keyrun.kill("SIGINT");
  keyrun.kill("SIGTERM");
  await keyrun.until(() => keyrun.stderr().includes('"msg":"draining"'));
  expect(await statusOf(`${keyrun.publicUrl}/readyz`)).not.toBe(200);
  app.release();
  expect(await run).toMatchObject({ status: 200, body: expect.stringContaining("released") });
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
