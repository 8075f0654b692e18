import { readFileSync } from "node:fs";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { afterAll, expect, test } from "vitest";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { connectCallers, type RunOutcome } from "../harness/callers.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { grpcJsCaller } from "../harness/grpc-js-caller.ts";
import { withAuthorization } from "../harness/keyrun.ts";
import { keyrunCommand, type ServingKeyrun, serveKeyrun } from "../harness/keyrun-process.ts";
import { rawSocket } from "../harness/raw-socket.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";
import { searchFolder } from "../harness/stored-bytes.ts";

const folders = tempFolders();
let keyrun: ServingKeyrun;

afterAll(async () => {
  keyrun.kill("SIGKILL");
  await keyrun.exited;
});

/** Every text that Keyrun sent, by its source, except the one response with a created key. */
const heard = new Map<string, string>();
let answers = 0;

function hear(what: string, text: string): void {
  answers += 1;
  heard.set(`${answers} ${what}`, text);
}

test("after calls of every kind no issued key and no service token is found outside its own place", async () => {
  keyrun = await serveKeyrun(folders.create(), {
    KEYRUN_LOG_LEVEL: "trace",
    KEYRUN_PLAN_LIMITS: "free=200",
    KEYRUN_DRAIN_MS_MAX: "200",
  });
  const app = await startScriptedApp();
  const { keys, apps, disconnect } = management();
  await apps.createApp({ app: { id: "scripted", backend: app.backend } });
  await apps.createApp({ app: { id: "nobody", backend: deadBackend } });

  const values = [await createByCommand(), await createByCommand()];
  for (let i = 0; i < 3; i++) values.push((await keys.createKey({ teamId: "demo" })).value);
  const [value = "", revoked = "", ...others] = values;
  const token = keyrun.serviceToken();

  await runRightly(value);
  for (const secret of [value, token]) await runWrongly(secret);
  for (const secret of [value, token]) await askWrongly(secret);
  hear("revoke", String(await keys.revokeKey({ teamId: "demo", keyId: idOf(revoked) }).then(textOf)));
  await runRightly(revoked);
  await runWrongly(revoked);
  for (const each of [value, revoked, ...others]) {
    hear("verify", textOf(await keys.verifyKey({ value: each })));
    const verified = await keyrunCommand({ KEYRUN_DATA_DIR: keyrun.dataDir }, ["keys", "verify"], each);
    hear("verify by command", verified.stdout + verified.stderr);
  }
  const cutOff = post({
    authorization: `Bearer ${others[1]}`,
    path: "/api/apps/scripted/run",
    body: '{"text":"wait"}',
  });
  await app.waits(1);
  for (let i = 0; i < 200; i++) await post({ authorization: `Bearer ${others[0]}` });
  hear("list", textOf(await keys.listKeys({ teamId: "demo", showRevoked: true })));
  for (const path of ["/openapi.json", "/readyz"])
    hear(path, await (await fetch(keyrun.publicUrl + path)).text());
  const metrics = await fetch(`${keyrun.internalUrl}/metrics`, {
    headers: { authorization: `Bearer ${token}` },
  });
  hear("/metrics", await metrics.text());
  hear("its command line", readFileSync(`/proc/${keyrun.pid}/cmdline`, "latin1"));
  hear("its environment", readFileSync(`/proc/${keyrun.pid}/environ`, "latin1"));
  const whileServing = await searchFolder(keyrun.dataDir, needlesOf(values));

  disconnect();
  keyrun.kill("SIGTERM");
  await cutOff;
  expect(await keyrun.exited).toEqual({ code: 0, signal: null });
  hear("standard output", keyrun.stdout());
  hear("the log", keyrun.stderr());
  await app.close();

  const needles = [...needlesOf(values), token];
  expect(needles.every((needle) => needle.length >= 43)).toBe(true);
  // The test proves nothing if nothing was logged or sent.
  expect(keyrun.stderr()).toContain("INVALID_API_KEY");
  expect(keyrun.stderr()).toContain("APP_UNREACHABLE");
  expect(keyrun.stderr()).toContain("POST /api/apps/{app_id}/run");
  expect(heard.size).toBeGreaterThan(300);
  const found = [...heard].flatMap(([where, text]) =>
    needles.flatMap((needle, index) => (text.includes(needle) ? [`${where}: ${index}`] : [])),
  );
  expect(found).toEqual([]);
  expect(whileServing).toEqual([]);
  expect(await searchFolder(keyrun.dataDir, needlesOf(values))).toEqual([]);
  // The search finds what is there.
  expect(await searchFolder(keyrun.dataDir, [token, idOf(value)])).toEqual(
    expect.arrayContaining(["service-token: 0", "keyrun.db: 1"]),
  );
});

const deadBackend = {
  kind: { case: "http" as const, value: { url: "http://127.0.0.1:1/run", headers: [] } },
};

/** The full values, and their secret parts alone. */
function needlesOf(values: readonly string[]): string[] {
  return values.flatMap((value) => [value, value.slice(value.indexOf(".") + 1)]);
}

function idOf(value: string): string {
  return value.slice(4, 28);
}

function textOf(answer: unknown): string {
  return JSON.stringify(answer, (_, each) => (typeof each === "bigint" ? String(each) : each));
}

function management() {
  const sessionManager = new Http2SessionManager(keyrun.internalUrl);
  const interceptors = [withAuthorization(`Bearer ${keyrun.serviceToken()}`)];
  const transport = createGrpcTransport({ baseUrl: keyrun.internalUrl, sessionManager, interceptors });
  return {
    keys: createClient(KeyService, transport),
    apps: createClient(AppService, transport),
    disconnect: () => sessionManager.abort(),
  };
}

/** Standard output of `keys create` is the only place where the full value may be. */
async function createByCommand(): Promise<string> {
  const args = ["keys", "create", "--team", "demo", "--label", "canary"];
  const { stdout, stderr } = await keyrunCommand({ KEYRUN_DATA_DIR: keyrun.dataDir }, args);
  hear("standard error of keys create", stderr);
  return stdout.trim();
}

/** Valid requests, and requests that fail after the key is accepted, on every handler. */
async function runRightly(value: string): Promise<void> {
  const authorization = `Bearer ${value}`;
  for (const appId of ["echo", "scripted", "nobody", "nowhere"]) {
    await post({ authorization, path: `/api/apps/${appId}/run`, body: '{"text":"fail"}' });
  }
  for (const make of [...Object.values(connectCallers), grpcJsCaller]) {
    for (const url of [keyrun.publicUrl, keyrun.internalUrl]) {
      const caller = make(url);
      for (const appId of ["echo", "scripted", "nobody", "nowhere"]) {
        hearOutcome(await caller.run({ appId, text: "fail", authorization }));
      }
      caller.close();
    }
  }
}

/** Sends a secret in every part of a run where it does not belong. */
async function runWrongly(secret: string): Promise<void> {
  const authorization = `Bearer ${secret}`;
  const mistyped = `${secret.slice(0, -1)}${secret.endsWith("a") ? "b" : "a"}`;
  for (const wrong of [
    `Bearer ${mistyped}`,
    `Bearer ${secret}${secret}`,
    `Bearer ${secret} ${secret}`,
    secret,
  ]) {
    await post({ authorization: wrong });
    for (const make of Object.values(connectCallers)) {
      const caller = make(keyrun.publicUrl);
      hearOutcome(await caller.run({ appId: "echo", text: "x", authorization: wrong }));
      caller.close();
    }
  }
  await post({ authorization: `Basic ${secret}` });
  await post({ headers: { "x-api-key": secret } });
  await post({ authorization, path: `/api/apps/echo/run?key=${secret}` });
  await post({ path: `/api/apps/echo/run?key=${secret}` });
  await post({ path: `/${secret}` });
  const [head = "", tail = ""] = secret.split(".");
  for (const path of [`/${head}/${tail}`, `/x/${head}%252e${tail}`, `/${tail}`]) await post({ path });
  await post({ path: `/api/apps/%zz${secret}/run` });
  await post({ authorization, path: `/api/apps/${secret}/run` }, "only the log");
  await post({ authorization, headers: { "x-request-id": secret } }, "only the log");
  await post({ authorization: "Bearer x", headers: { "x-request-id": secret } }, "only the log");
  await post({ authorization, body: `{"text":${secret}` });
  await post({ authorization, body: `{"text":"x","token":"${secret}"}` });
  await post({ authorization, headers: { "content-type": `text/${secret}` } });
  await post({ authorization, method: "GET" });
  const { port } = new URL(keyrun.publicUrl);
  for (const head of [
    `POST /api/apps/echo/run HTTP/1.1\r\nHost: x\r\nAuthorization Bearer ${secret}\r\n\r\n`,
    `POST /api/apps/echo/run HTTP/9.9\r\nAuthorization: Bearer ${secret}\r\n\r\n`,
    `${secret}\r\n\r\n`,
  ]) {
    const socket = rawSocket({ port: Number(port) });
    socket.send(head);
    hear("the parser", await socket.closed());
  }
}

/** Sends a secret in every part of a management call where it does not belong. */
async function askWrongly(secret: string): Promise<void> {
  const { keys, disconnect } = management();
  const wrong = [
    () => keys.listKeys({ teamId: secret.slice(0, 100) }),
    () => keys.listKeys({ teamId: "demo", pageToken: secret }),
    () => keys.revokeKey({ teamId: "demo", keyId: secret.slice(secret.indexOf(".") + 1, -1) }),
    () => keys.createKey({ teamId: "demo", requestId: secret }),
    () => keys.verifyKey({ value: `${secret}x` }),
    () => keys.verifyKey({ value: secret, cost: -1 }),
  ];
  for (const ask of wrong) {
    const said = await ask().then(
      textOf,
      (error) => `${error} ${textOf([...error.metadata])} ${textOf(error.details)}`,
    );
    hear("management", said);
  }
  disconnect();
  for (const args of [["keys", "revoke", "--team", "demo", secret], ["keys", "verify", secret], [secret]]) {
    // A service token does not have the form of a key, so it can't be recognised in arguments.
    if (secret === keyrun.serviceToken()) continue;
    const { stdout, stderr } = await keyrunCommand({ KEYRUN_DATA_DIR: keyrun.dataDir }, args);
    hear(`the command line, of ${args.length}`, stdout + stderr);
  }
}

function hearOutcome({ headers, ...outcome }: RunOutcome): void {
  hear("a run", textOf([outcome, [...headers]]));
}

interface Posted {
  readonly method?: string;
  readonly path?: string;
  readonly authorization?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

/** Sends a run. With `only the log` the response may repeat what the caller sent. */
async function post(posted: Posted, counts: "all" | "only the log" = "all"): Promise<void> {
  const { method = "POST", path = "/api/apps/echo/run", authorization, body = '{"text":"x"}' } = posted;
  const headers = {
    "content-type": "application/json",
    ...posted.headers,
    ...(authorization && { authorization }),
  };
  const answer = await fetch(keyrun.publicUrl + path, {
    method,
    headers,
    ...(method === "POST" && { body }),
  });
  const text = textOf([answer.status, [...answer.headers], await answer.text()]);
  if (counts === "all") hear(`${method} ${answer.status}`, text);
}
