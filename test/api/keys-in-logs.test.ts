import { connect } from "node:http2";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { connectCallers } from "../harness/callers.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { grpcJsCaller } from "../harness/grpc-js-caller.ts";
import { h2cRequest } from "../harness/h2c-client.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { restRun } from "../harness/keyrun-process.ts";
import { decoded, mutatedKey, tellsSecret } from "../harness/mutated-keys.ts";
import { postConnect } from "../harness/post-connect.ts";
import { rawSocket } from "../harness/raw-socket.ts";

const keyrun = closedAtEnd(
  await startKeyrun({
    logLevel: "trace",
    settings: { KEYRUN_PLAN_LIMITS: "free=10000", KEYRUN_TRUST_PROXY: "1" },
  }),
);
const key = await keyrun.newKey(await keyrun.newTeam());

/** A text that no header may hold is percent-encoded, as a client library would do. */
function visible(text: string): string {
  return text.replace(/[^!-~]/g, encodeURIComponent);
}

/** As much of a text as a request id may hold, for example. */
function word(text: string): string {
  return decoded(text).replace(/[^\w.-]/g, "-");
}

const listeners = () => [keyrun.publicUrl, keyrun.internalUrl];

/** Sends one request over HTTP/1.1, and waits for the end of the connection. */
async function http1(url: string, head: string, body = ""): Promise<void> {
  const client = rawSocket({ port: Number(new URL(url).port) });
  const length = body === "" ? "" : `Content-Length: ${Buffer.byteLength(body)}\r\n`;
  client.send(
    `${head}\r\n${/^host:/im.test(head) ? "" : "Host: a\r\n"}${length}Connection: close\r\n\r\n${body}`,
  );
  await client.closed();
}

/** Sends one request over HTTP/2. Its stream may be refused without an answer. */
async function http2(url: string, headers: Record<string, string>): Promise<void> {
  const session = connect(url);
  session.on("error", () => undefined);
  await h2cRequest(session, headers).catch(() => undefined);
  session.destroy();
}

const grpc = { ":method": "POST", "content-type": "application/grpc", te: "trailers" };
const bearer = () => `Authorization: Bearer ${key.value}`;
const json = "Content-Type: application/json";

/** Every place where a caller may put a text, by its name. */
const places: Readonly<Record<string, (url: string, text: string) => Promise<unknown>>> = {
  "the path": (url, text) => http1(url, `GET /${visible(text)} HTTP/1.1`),
  "a long path": (url, text) => http1(url, `GET /${"a/".repeat(90)}${visible(text)}/run HTTP/1.1`),
  "the path of an app": (url, text) =>
    http1(url, `POST /api/apps/${visible(text)}/run HTTP/1.1\r\n${bearer()}`),
  "a bad escape in the path": (url, text) => http1(url, `POST /api/apps/%ff${visible(text)}/run HTTP/1.1`),
  "the path of a method": (url, text) =>
    http1(url, `POST /keyrun.v1.RunService/${visible(text)} HTTP/1.1\r\n${json}`),
  "the query": (url, text) =>
    http1(url, `POST /api/apps/echo/run?${visible(text)}=1 HTTP/1.1\r\n${bearer()}`),
  "an absolute target": (url, text) => http1(url, `GET http://${visible(text)}/${visible(text)} HTTP/1.1`),
  "the target of a CONNECT": (url, text) => http1(url, `CONNECT ${visible(text)}:443 HTTP/1.1`),
  "the method": (url, text) => http1(url, `${visible(text)} / HTTP/1.1`),
  "the version": (url, text) => http1(url, `GET / ${visible(text)}`),
  "the host": (url, text) => http1(url, `GET / HTTP/1.1\r\nHost: ${visible(text)}`),
  "a malformed header": (url, text) => http1(url, `GET / HTTP/1.1\r\n${visible(text)} ${visible(text)}`),
  "the credential": (url, text) =>
    http1(url, `POST /api/apps/echo/run HTTP/1.1\r\nAuthorization: ${visible(text)}`),
  "the request id": (url, text) => http1(url, `GET /nowhere HTTP/1.1\r\nX-Request-Id: ${word(text)}`),
  "the request id of a run": (url, text) =>
    http1(url, `POST /api/apps/echo/run HTTP/1.1\r\nX-Request-Id: ${word(text)}`),
  "the client's address": (url, text) =>
    http1(url, `GET /nowhere HTTP/1.1\r\nX-Forwarded-For: fe80::1%${word(text)}`),
  "the media type": (url, text) =>
    http1(
      url,
      `POST /api/apps/echo/run HTTP/1.1\r\n${bearer()}\r\nContent-Type: text/${visible(text)}`,
      "{}",
    ),
  "a field's name": (url, text) =>
    http1(
      url,
      `POST /api/apps/echo/run HTTP/1.1\r\n${bearer()}\r\n${json}`,
      JSON.stringify({ text: "", [text]: 1 }),
    ),
  "text that is no JSON": (url, text) =>
    http1(url, `POST /api/apps/echo/run HTTP/1.1\r\n${bearer()}\r\n${json}`, `{"text":${text}`),
  "the path over HTTP/2": (url, text) => http2(url, { ":path": `/${visible(text)}` }),
  "the method over HTTP/2": (url, text) => http2(url, { ":method": word(text), ":path": "/" }),
  "the authority over HTTP/2": (url, text) =>
    http2(url, { ":path": "/nowhere", ":authority": visible(text) }),
  "the method of gRPC": (url, text) =>
    http2(url, { ...grpc, ":path": `/keyrun.v1.KeyService/${visible(text)}` }),
  "the service of gRPC": (url, text) => http2(url, { ...grpc, ":path": `/${visible(text)}/RunApp` }),
  "the encoding of gRPC": (url, text) =>
    http2(url, { ...grpc, ":path": "/keyrun.v1.RunService/RunApp", "grpc-encoding": visible(text) }),
  "a field's name over Connect": (url, text) =>
    postConnect(url, "RunService/RunApp", { token: key.value, body: JSON.stringify({ [text]: 1 }) }),
  "text that is no JSON over Connect": (url, text) =>
    postConnect(url, "RunService/RunApp", { token: key.value, body: `{${text}` }),
  "a label": (_, text) =>
    keyrun.keys.createKey({ teamId: key.teamId, label: text.padEnd(200, "x") }).catch(() => 0),
  "a team's id": (_, text) => keyrun.keys.listKeys({ teamId: text.slice(0, 63) }).catch(() => 0),
};

test.each(Object.keys(places))("no log line tells a secret that a caller put into %s", async (place) => {
  const send = places[place]!;
  const before = keyrun.logLines.length;
  await fc.assert(
    fc.asyncProperty(mutatedKey(key.value), fc.constantFrom(...listeners()), async (text, url) => {
      const at = keyrun.logLines.length;
      await send(url, text);
      const telling = keyrun.logLines.slice(at).filter((line) => tellsSecret(line, key.value));
      expect(telling).toEqual([]);
    }),
    { numRuns: 60 },
  );
  // The test proves nothing if nothing was logged.
  expect(keyrun.logLines.length).toBeGreaterThan(before + 10);
});

test("the log names the app whose run failed, through every entry", async () => {
  const backend = { kind: { case: "http" as const, value: { url: "http://127.0.0.1:1/run" } } };
  await keyrun.apps.createApp({ app: { id: "broken", backend } });
  const at = keyrun.logLines.length;
  await restRun(keyrun.publicUrl, { value: key.value, appId: "broken" });
  const callers = [...Object.values(connectCallers), grpcJsCaller].map((make) => make(keyrun.publicUrl));
  for (const caller of callers) {
    await caller.run({ appId: "broken", text: "", authorization: `Bearer ${key.value}` });
    caller.close();
  }
  const refusals = keyrun.logLines.slice(at).map((line) => JSON.parse(line));
  const appIds = refusals.filter(({ reason }) => reason !== undefined).map(({ appId }) => appId);
  expect(appIds).toEqual(Array.from({ length: 1 + callers.length }, () => "broken"));
});

test("the log names the route of a refusal, however its path is written, and no text of the caller", async () => {
  const at = keyrun.logLines.length;
  for (const target of ["/api/apps/echo/run?x=1", "/%61pi/apps/nobody/r%75n", "/nowhere/at/all", "*"]) {
    await http1(keyrun.publicUrl, `OPTIONS ${target} HTTP/1.1`);
  }
  for (const target of ["/settings/a/b", "/metrics"])
    await http1(keyrun.internalUrl, `POST ${target} HTTP/1.1`);
  await http2(keyrun.publicUrl, { ":method": "BREW", ":path": "/healthz" });
  await http2(keyrun.publicUrl, { ...grpc, ":path": "/keyrun.v1.RunService/RunApp" });
  const requests = keyrun.logLines.slice(at).map((line) => JSON.parse(line).request);
  expect(requests).toEqual([
    "OPTIONS /api/apps/{app_id}/run",
    "OPTIONS /api/apps/{app_id}/run",
    "OPTIONS (no route)",
    "OPTIONS (no route)",
    "POST /settings/**",
    "POST /metrics",
    "_OTHER /healthz",
    "POST /keyrun.v1.RunService/RunApp",
  ]);
});
