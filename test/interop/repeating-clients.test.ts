import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import Anthropic from "@anthropic-ai/sdk";
import axios from "axios";
import axiosRetry from "axios-retry";
import got from "got";
import ky from "ky";
import OpenAI from "openai";
import { interceptors, Pool } from "undici";
import { describe, expect, test } from "vitest";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { python, pythonHas } from "../harness/python.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";
import { openLosingProxy } from "./losing-proxy.ts";

let value = "";
let url = "";

const app = closedAtEnd(await startScriptedApp());
const keyrun = closedAtEnd(await startKeyrun({ settings: { KEYRUN_PLAN_LIMITS: "free=100000" } }));
await keyrun.apps.createApp({ app: { id: "counted", backend: app.backend } });
value = (await keyrun.newKey(await keyrun.newTeam())).value;
const proxy = closedAtEnd(await openLosingProxy(keyrun.app.publicAddress));
url = `http://127.0.0.1:${proxy.port}`;

const path = "/api/apps/counted/run";
const headersFor = (key: string) => ({
  authorization: `Bearer ${value}`,
  "content-type": "application/json",
  "idempotency-key": key,
});

/** The run id that the client returns, with its own repeats switched on. */
const clients: Record<string, (key: string, text: string) => Promise<unknown>> = {
  async openai(key, text) {
    const client = new OpenAI({ apiKey: value, baseURL: url, maxRetries: 5 });
    return client.post(path, { body: { text }, headers: { "Idempotency-Key": key } });
  },
  async Anthropic(key, text) {
    const client = new Anthropic({ authToken: value, apiKey: null, baseURL: url, maxRetries: 5 });
    return client.post(path, { body: { text }, headers: { "Idempotency-Key": key } });
  },
  ky: (key, text) =>
    ky
      .post(url + path, {
        ...{ json: { text }, headers: headersFor(key) },
        retry: { limit: 5, methods: ["post"], delay: () => 10 },
      })
      .json(),
  got: (key, text) =>
    got
      .post(url + path, {
        ...{ json: { text }, headers: headersFor(key) },
        retry: {
          limit: 5,
          methods: ["POST"],
          calculateDelay: ({ attemptCount }) => (attemptCount > 5 ? 0 : 10),
        },
      })
      .json(),
  async undici(key, text) {
    const pool = new Pool(url).compose(
      interceptors.retry({
        maxRetries: 5,
        methods: ["POST"],
        minTimeout: 10,
        errorCodes: ["ECONNRESET", "UND_ERR_SOCKET"],
      }),
    );
    const answer = await pool.request({
      method: "POST",
      path,
      headers: headersFor(key),
      body: JSON.stringify({ text }),
    });
    const body = await answer.body.json();
    await pool.close();
    return body;
  },
  async "axios-retry"(key, text) {
    const client = axios.create();
    axiosRetry(client, { retries: 5, retryCondition: (error) => !error.response, retryDelay: () => 10 });
    return (await client.post(url + path, { text }, { headers: headersFor(key) })).data;
  },
};

const isMissing = !pythonHas("httpx", "requests", "urllib3");
if (isMissing) {
  process.stderr.write(
    "The clients of Python are left out: install python3-requests and python3-httpx to include them.\n",
  );
}

async function byPython(client: string, key: string, text: string): Promise<unknown> {
  const order = JSON.stringify({ client, url: url + path, value, key, text });
  const script = fileURLToPath(new URL("repeat.py", import.meta.url));
  const { stdout } = await promisify(execFile)(python, [script, order]);
  return JSON.parse(stdout);
}

test("the clients of Python are installed where every test is required", () => {
  expect(process.env.KEYRUN_TEST_REQUIRE_ALL === "1" && isMissing).toBeFalsy();
});

if (!isMissing) {
  for (const client of ["requests", "urllib3", "httpx"]) {
    clients[client] = (key, text) => byPython(client, key, text);
  }
}

describe.each(Object.entries(clients))("%s, which repeats by itself", (_, send) => {
  test("starts the app once though the network loses two answers, and gets the answer", async () => {
    const text = `hello ${randomUUID()}`;
    proxy.loseAnswers(2);
    const answer = await send(randomUUID(), text);
    expect(answer).toMatchObject({ appId: "counted", text: text.toUpperCase() });
    expect(proxy.lost()).toBe(2);
    expect(app.starts(text)).toBe(1);
  });
});
