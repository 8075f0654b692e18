import { execFile, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import axios from "axios";
import got from "got";
import ky from "ky";
import OpenAI from "openai";
import { request } from "undici";
import { expect, test } from "vitest";
import { closedAtEnd, tempFolders } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { python, pythonHas } from "../harness/python.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";

/** How it looks for the end: waiting at Keyrun, or as often as the answer said. */
type Way = "wait" | "Retry-After";

interface Looked {
  readonly looks: number;
  readonly run: { readonly state: string; readonly text: string };
}

const folders = tempFolders();
let value = "";
let url = "";

const app = closedAtEnd(await startScriptedApp());
const keyrun = closedAtEnd(await startKeyrun({ settings: { KEYRUN_PLAN_LIMITS: "free=100000" } }));
await keyrun.apps.createApp({ app: { id: "counted", backend: app.backend } });
value = (await keyrun.newKey(await keyrun.newTeam())).value;
url = keyrun.publicUrl;

interface Answered {
  readonly status: number;
  readonly header: (name: string) => unknown;
  readonly run: unknown;
}

type Ask = (
  method: "GET" | "POST",
  to: string,
  sent: { headers: Record<string, string>; json?: object | undefined },
) => Promise<Answered>;

const ofFetch = async (answer: Response): Promise<Answered> => ({
  status: answer.status,
  header: (name) => answer.headers.get(name),
  run: await answer.json(),
});

const asks: Record<string, Ask> = {
  fetch: async (method, to, { headers, json }) =>
    ofFetch(await fetch(to, { method, headers, ...(json && { body: JSON.stringify(json) }) })),
  ky: async (method, to, { headers, json }) =>
    ofFetch(await ky(to, { method, headers, timeout: 60_000, ...(json && { json }) })),
  async got(method, to, { headers, json }) {
    const answer = await got(to, { method, headers, ...(json && { json }) });
    return {
      status: answer.statusCode,
      header: (name) => answer.headers[name],
      run: JSON.parse(answer.body),
    };
  },
  async axios(method, to, { headers, json }) {
    const { status, headers: answered, data } = await axios(to, { method, headers, data: json });
    return { status, header: (name) => answered[name], run: data };
  },
  async undici(method, to, { headers, json }) {
    const answer = await request(to, { method, headers, body: json ? JSON.stringify(json) : null });
    return {
      status: answer.statusCode,
      header: (name) => answer.headers[name],
      run: await answer.body.json(),
    };
  },
  async openai(method, to, { headers, json }) {
    const client = new OpenAI({ apiKey: value, baseURL: url });
    const path = to.slice(url.length);
    const answer = client[method === "GET" ? "get" : "post"](path, { headers, ...(json && { body: json }) });
    return ofFetch(await answer.asResponse());
  },
};

/** As a program of a caller would, by what the answer says alone. */
async function byAsking(ask: Ask, text: string, way: Way): Promise<Looked> {
  const headers = { authorization: `Bearer ${value}`, "content-type": "application/json" };
  const preferring = (prefer: string) => ({ headers: { ...headers, prefer } });
  const first = await ask("POST", `${url}/api/apps/counted/run`, {
    ...preferring("respond-async"),
    json: { text },
  });
  expect(first.status).toBe(202);
  let { run } = first as { run: Looked["run"] };
  let looks = 0;
  for (; run.state === "RUN_STATE_RUNNING"; looks += 1) {
    if (way === "Retry-After") await pause(Number(first.header("retry-after")) * 1_000);
    const look = await ask(
      "GET",
      url + first.header("location"),
      way === "wait" ? preferring("wait=30") : { headers },
    );
    expect(look.status).toBe(200);
    run = look.run as Looked["run"];
  }
  return { looks, run };
}

async function byProgram(program: string, ...args: string[]): Promise<Looked> {
  const { stdout } = await promisify(execFile)(program, args, { cwd: import.meta.dirname });
  return JSON.parse(stdout);
}

/** With nothing but a shell, as the page for callers has it. */
const curl = `
set -eu
key="Authorization: Bearer $3"
run=$(curl -sS -D "$1" "$2/api/apps/counted/run" -H "$key" -H "Content-Type: application/json" -H "Prefer: respond-async" -d "{\\"text\\":\\"$4\\"}")
header() { sed -n "s/^$1: *//Ip" "$2" | tr -d '\\r'; }
at=$2$(header location "$1")
looks=0
while case $run in *RUN_STATE_RUNNING*) true;; *) false;; esac; do
  if [ "$5" = wait ]; then run=$(curl -sS "$at?wait=30s" -H "$key")
  else sleep "$(header retry-after "$1")"; run=$(curl -sS "$at" -H "$key"); fi
  looks=$((looks + 1))
done
printf '{"looks":%s,"run":%s}' "$looks" "$run"`;

const pythonMissing = pythonHas("httpx", "requests", "urllib3") ? undefined : "Python has no httpx, requests";
const goMissing = spawnSync("go", ["version"]).status === 0 ? undefined : "there is no Go";
const curlMissing = spawnSync("curl", ["--version"]).status === 0 ? undefined : "there is no curl";

const clients: {
  name: string;
  missing?: string | undefined;
  look(text: string, way: Way): Promise<Looked>;
}[] = [
  ...Object.entries(asks).map(([name, ask]) => ({
    name,
    look: (text: string, way: Way) => byAsking(ask, text, way),
  })),
  ...["requests", "urllib3", "httpx"].map((client) => ({
    name: `Python's ${client}`,
    missing: pythonMissing,
    look: (text: string, way: Way) =>
      byProgram(python, "background.py", JSON.stringify({ client, url, value, text, way })),
  })),
  {
    name: "Go's net/http",
    missing: goMissing,
    look: (text, way) => byProgram("go", "run", "background.go", url, value, text, way),
  },
  {
    name: "curl",
    missing: curlMissing,
    look: (text, way) =>
      byProgram("sh", "-c", curl, "sh", join(folders.create(), "headers"), url, value, text, way),
  },
];

async function finds(look: (text: string, way: Way) => Promise<Looked>, way: Way): Promise<void> {
  const text = `wait ${randomUUID()}`;
  const looked = look(text, way);
  await app.started(text);
  // Past the first look, if the machine is quick enough.
  await pause(way === "wait" ? 500 : 2_500);
  app.release(text);
  const { looks, run } = await looked;
  expect(run).toMatchObject({ state: "RUN_STATE_SUCCEEDED", text: "released" });
  expect(looks).toBeGreaterThan(0);
  expect(app.starts(text)).toBe(1);
}

for (const { name, missing, look } of clients) {
  const testWith = missing === undefined ? test.concurrent : test.skip;
  testWith(
    `${name}, unchanged, finds the end of a run in the background, by waiting and by Retry-After`,
    async () => {
      await Promise.all([finds(look, "wait"), finds(look, "Retry-After")]);
    },
  );
}
