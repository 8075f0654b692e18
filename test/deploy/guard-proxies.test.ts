import { execFile } from "node:child_process";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import OpenAI from "openai";
import { WebSocket } from "undici";
import { afterAll, beforeAll, expect, test } from "vitest";
import { bounds } from "#src/bounds.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import {
  type GuardProxy,
  type GuardProxyName,
  guardProxyMissing,
  guardProxyNames,
  startGuardProxy,
} from "../harness/guard-proxy.ts";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { describeWith, programsMissing } from "../harness/needs.ts";
import { type Arrived, startGuardedService } from "./guarded-service.ts";
import { openTap, type Tap } from "./tap.ts";

/** What docs/guard.md says of each. */
interface Known {
  readonly away: number;
  /** Whether the caller gets `RateLimit-*` with an answer of the service. */
  readonly limitsPass: boolean;
  /** Whether it gets Keyrun's own 503. */
  readonly busyPasses: boolean;
  /** Whether a name in X-Keyrun-… that Keyrun does not use is removed, too. */
  readonly othersGo: boolean;
}

const all: Known = { away: 503, limitsPass: true, busyPasses: true, othersGo: true };
const known: Record<GuardProxyName, Known> = {
  nginx: { ...all, othersGo: false },
  caddy: all,
  haproxy: all,
  traefik: { ...all, away: 500, limitsPass: false },
  envoy: { ...all, busyPasses: false },
};

/** What may stand between the words of a header's name beside letters and digits. */
const signs = [..."!#$%&'*+-.^_`|~"];
const about = ["Team", "Key", "App", "Plan", "Status", "Code", "Denials"];
const forged: Record<string, string> = Object.fromEntries([
  ...about.map((word) => [`x-KEYRUN-${word}`, "forged"]),
  ...signs.filter((sign) => sign !== "-").map((sign) => [`X${sign}Keyrun${sign}Team`, "forged"]),
  ...["X-Keyrun_Plan", "x_keyrun-app", "X.KEYRUN_KEY"].map((name) => [name, "forged"]),
]);

/** What opens a WebSocket beside `Upgrade`. */
const handshake = { "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==", "sec-websocket-version": "13" };

const folders = tempFolders();
let keyrun: Keyrun;
let isBusy = false;
let value: string;
let teamId: string;
let keyId: string;

interface Asked {
  readonly method?: string;
  readonly key?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
  /** The caller's own address. */
  readonly from?: string;
}

async function ask(url: string, { method = "GET", key, headers, body, from }: Asked = {}) {
  const { origin, port } = new URL(url);
  const answered = Promise.withResolvers<IncomingMessage>();
  const sent = request({
    ...{ host: "127.0.0.1", port, method, path: url.slice(origin.length) || "/", localAddress: from },
    headers: { ...(key && { authorization: `Bearer ${key}` }), ...headers },
  });
  sent.on("response", answered.resolve).on("error", answered.reject).end(body);
  const answer = await answered.promise;
  return { status: answer.statusCode, headers: answer.headers, body: await text(answer) };
}

/** What the service can take for a word of Keyrun's: names are not told apart by case or sign. */
function wordsOfKeyrun({ headers }: Arrived): [string, string][] {
  return headers
    .map(([name, said]): [string, string] => [name.replace(/[^a-z\d]/gi, "_").toUpperCase(), said])
    .filter(([name]) => name.startsWith("X_KEYRUN"))
    .sort();
}

function codeOf({ body }: { body: string }): string {
  return (JSON.parse(body) as { error: { code: string } }).error.code;
}

for (const name of guardProxyNames) {
  describeWith(guardProxyMissing(name))(`${name}, with the file of deploy/guard/`, () => {
    let service: Awaited<ReturnType<typeof startGuardedService>>;
    let tap: Tap;
    let proxy: GuardProxy;

    beforeAll(async () => {
      keyrun ??= await startGuardingKeyrun();
      service = await startGuardedService();
      tap = await openTap(new URL(keyrun.publicUrl).host);
      proxy = await startGuardProxy(name, {
        folder: folders.create(),
        keyruns: [tap.host],
        service: service.host,
      });
    });
    afterAll(async () => {
      await proxy?.close();
      await tap?.close();
      await service?.close();
    });

    const accepted = () => [
      ["X_KEYRUN_APP", "orders"],
      ["X_KEYRUN_KEY", keyId],
      ["X_KEYRUN_PLAN", "free"],
      ["X_KEYRUN_TEAM", teamId],
    ];

    test("the service gets who calls and from where, and neither the key nor a word that is forged in any spelling", async () => {
      const headers = {
        ...forged,
        "X-Keyrun-Other": "forged",
        "x-forwarded-for": "192.0.2.1",
        "x-other": "kept",
      };
      const { status, body } = await ask(`${proxy.url}/a?b=c`, { key: value, headers });
      expect([status, body]).toEqual([200, "of the service"]);
      const arrived = service.arrived.at(-1)!;
      expect(arrived).toMatchObject({ method: "GET", url: "/a?b=c" });
      const other = known[name].othersGo ? [] : [["X_KEYRUN_OTHER", "forged"]];
      expect(wordsOfKeyrun(arrived)).toEqual([...accepted(), ...other].sort());
      const others = arrived.headers.map(([key, said]) => [key.toLowerCase(), said] as const);
      expect(others.filter(([key]) => key === "x-forwarded-for")).toEqual([["x-forwarded-for", "127.0.0.1"]]);
      expect(others).toContainEqual(["x-other", "kept"]);
      expect(JSON.stringify(arrived)).not.toContain(value);
    });

    test("a key in the second header counts in place of Authorization, and neither reaches the service", async () => {
      const credentials = "Basic b2Y6dGhlLXNlcnZpY2U=";
      const headers = { "x-api-key": value, authorization: credentials };
      expect((await ask(`${proxy.url}/a`, { headers })).status).toBe(200);
      const arrived = service.arrived.at(-1)!;
      expect(wordsOfKeyrun(arrived)).toEqual(accepted());
      for (const secret of [value, credentials]) expect(JSON.stringify(arrived)).not.toContain(secret);
      const wrong = await ask(`${proxy.url}/a`, {
        key: value,
        headers: { "x-api-key": keyrun.unknownKey() },
      });
      expect([wrong.status, codeOf(wrong)]).toEqual([401, "invalid_api_key"]);
    });

    test("a caller can't have who calls dropped on the way, by naming it in Connection", async () => {
      const named = "X-Keyrun-Team, X-Keyrun-Key";
      for (const headers of [
        { connection: `keep-alive, ${named}` },
        { connection: `upgrade, ${named}`, upgrade: "websocket", ...handshake },
      ]) {
        const { length } = service.arrived;
        const { port } = proxy;
        const sent = request({
          ...{ host: "127.0.0.1", port, path: "/a" },
          headers: { authorization: `Bearer ${value}`, ...headers },
        });
        sent.on("error", () => {}).on("upgrade", (_, socket) => socket.destroy());
        sent.end();
        await expect.poll(() => service.arrived.length).toBe(length + 1);
        sent.destroy();
        const arrived = service.arrived.at(-1)!;
        expect(wordsOfKeyrun(arrived)).toEqual(accepted());
        const connection = arrived.headers.filter(([key]) => key.toLowerCase() === "connection");
        expect(connection.map(([, said]) => said.toLowerCase()).join()).not.toContain("keyrun");
      }
    });

    test("a caller can open a WebSocket, and no other protocol past the guard", async () => {
      const preflight = { "access-control-request-method": "GET" };
      const cases: [string, Record<string, string | string[]>][] = [
        ["GET", { upgrade: "h2c", connection: "upgrade, http2-settings", "http2-settings": "AAMAAABk" }],
        ["GET", { upgrade: "other", connection: "upgrade" }],
        ["GET", { upgrade: ["h2c", "websocket"], connection: "upgrade", ...handshake }],
        ["OPTIONS", { upgrade: "websocket", connection: "upgrade", ...handshake, ...preflight }],
      ];
      for (const [method, headers] of cases) {
        const { length } = service.arrived;
        await new Promise<void>((resolve) => {
          const sent = request(`${proxy.url}/a`, {
            method,
            headers: { ...headers, ...(method !== "OPTIONS" && { authorization: `Bearer ${value}` }) },
          });
          sent.on("upgrade", (_, socket) => resolve(void socket.destroy())).on("error", () => resolve());
          sent.on("response", (answer) => answer.resume().on("close", resolve));
          sent.end();
        });
        // It goes without the other protocol, or not at all.
        const opened = service.arrived.slice(length).flatMap((arrived) => arrived.headers);
        const protocols = opened.filter(([name]) => name.toLowerCase() === "upgrade");
        const isAllowed = method === "GET" && Array.isArray(headers.upgrade);
        expect(protocols.filter(([, said]) => !isAllowed || said !== "websocket")).toEqual([]);
      }
    });

    test("a request with two keys is refused", async () => {
      const { length } = service.arrived;
      const keys = [value, keyrun.unknownKey()].flatMap((key) => ["Authorization", `Bearer ${key}`]);
      const headers = ["Host", new URL(proxy.url).host, ...keys];
      const sent = request(`${proxy.url}/a`, { headers }).end();
      const [answer] = (await once(sent, "response")) as [IncomingMessage];
      expect([400, 401]).toContain(answer.resume().statusCode);
      expect(service.arrived).toHaveLength(length);
    });

    test("a refusal has Keyrun's status and code, and what the caller needs to do better", async () => {
      const { length } = service.arrived;
      const none = await ask(`${proxy.url}/a`);
      expect([none.status, codeOf(none), none.headers["www-authenticate"]]).toMatchObject([
        401,
        "missing_api_key",
        expect.stringContaining("Bearer"),
      ]);
      const unknown = await ask(`${proxy.url}/a`, { key: keyrun.unknownKey() });
      expect([unknown.status, codeOf(unknown)]).toEqual([401, "invalid_api_key"]);
      const other = await keyrun.newKey(teamId, { appIds: ["echo"] });
      const restricted = await ask(`${proxy.url}/a`, { key: other.value });
      expect([restricted.status, codeOf(restricted)]).toEqual([403, "app_not_allowed"]);
      const stranger = await keyrun.newKey(await keyrun.newTeam());
      const hidden = await ask(`${proxy.url}/a`, { key: stranger.value });
      expect([hidden.status, codeOf(hidden)]).toEqual([404, "app_not_found"]);
      expect(service.arrived).toHaveLength(length);

      const slow = await keyrun.newKey(teamId, { requestsPerMinute: 1 });
      expect((await ask(`${proxy.url}/a`, { key: slow.value })).status).toBe(200);
      const limited = await ask(`${proxy.url}/a`, { key: slow.value });
      expect([limited.status, codeOf(limited)]).toEqual([429, "rate_limit_exceeded"]);
      expect(Number(limited.headers["retry-after"])).toBeGreaterThan(0);
      expect(limited.headers["ratelimit-remaining"]).toBe("0");
      expect(limited.headers["cache-control"]).toBe("no-store");
      expect(service.arrived).toHaveLength(length + 1);
    });

    test("while Keyrun has too much to do nothing passes, and the caller is told", async () => {
      const { length } = service.arrived;
      isBusy = true;
      const busy = await ask(`${proxy.url}/a`, { key: value });
      isBusy = false;
      expect(busy.status).toBe(503);
      if (known[name].busyPasses) {
        expect([codeOf(busy), busy.headers["retry-after"]]).toEqual(["overloaded", "1"]);
      } else expect(busy.body).toBe("");
      expect(service.arrived).toHaveLength(length);
    });

    test("what the service answers passes as it is, with what is left of the limit", async () => {
      for (const status of [200, 401, 403, 404, 429, 500, 503]) {
        const answer = await ask(`${proxy.url}/status/${status}`, { key: value });
        expect([answer.status, answer.body]).toEqual([status, "of the service"]);
        const left = Number(answer.headers["ratelimit-remaining"] ?? Number.NaN);
        if (known[name].limitsPass) expect(left).toBeGreaterThan(0);
        else expect(left).toBeNaN();
      }
    });

    test("the question names the guard of the app, whatever the path of the request", async () => {
      const paths = [
        "/../../echo/guard",
        "/%2e%2e/%2e%2e/echo/guard",
        "/..%2f..%2fecho%2fguard",
        "//x//",
        "/?a",
      ];
      const asked = (each: Tap) =>
        each.sent.flatMap((one) => one.text.match(/^[A-Z]+ \S+ HTTP\/1\.1$/gm) ?? []);
      const before = asked(tap).length;
      for (const path of paths) {
        const { status } = await ask(proxy.url + path, { key: value });
        // nginx itself refuses a path that leads above the root.
        expect([200, 400]).toContain(status);
      }
      const questions = asked(tap)
        .slice(before)
        .filter((line) => !line.includes(" /readyz "));
      expect(questions.length).toBeGreaterThan(1);
      const own = /^\w+ \/api\/apps\/orders\/guard(?![^/? ])/;
      expect(questions.filter((line) => !own.test(line))).toEqual([]);
      expect(service.arrived.slice(-questions.length).map(wordsOfKeyrun)).toEqual(questions.map(accepted));
    });

    test("a browser's question before its request passes without a key, and nothing else does", async () => {
      const { length } = service.arrived;
      const asking = { origin: "https://app.example.com", "access-control-request-method": "POST" };
      const preflight = await ask(`${proxy.url}/a`, { method: "OPTIONS", headers: { ...asking, ...forged } });
      expect([preflight.status, preflight.headers["access-control-allow-origin"]]).toEqual([204, "*"]);
      expect(wordsOfKeyrun(service.arrived.at(-1)!)).toEqual([]);
      expect((await ask(`${proxy.url}/a`, { method: "OPTIONS" })).status).toBe(401);
      expect((await ask(`${proxy.url}/a`, { method: "POST", headers: asking })).status).toBe(401);
      expect(service.arrived).toHaveLength(length + 1);
    });

    test("the client of OpenAI streams through it, piece by piece", async () => {
      const openai = new OpenAI({ apiKey: value, baseURL: `${proxy.url}/v1`, maxRetries: 0 });
      const next = service.nextChat();
      const asked = openai.chat.completions.create({
        model: "small",
        messages: [{ role: "user", content: "hello" }],
        stream: true,
      });
      const chat = await next;
      chat.say("first");
      const heard: string[] = [];
      for await (const { choices } of await asked) {
        heard.push(choices[0]?.delta.content ?? "");
        // The service says no more before the first piece has passed.
        if (heard.length === 1) chat.say("second");
        else chat.end();
      }
      expect(heard).toEqual(["first", "second"]);
      const refused = new OpenAI({ apiKey: "wrong", baseURL: `${proxy.url}/v1`, maxRetries: 0 });
      await expect(refused.models.list()).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
    });

    describeWith(programsMissing("curl"))("with curl", () => {
      test("an MCP server answers through it", async () => {
        const message = { jsonrpc: "2.0", id: 7, method: "initialize", params: {} };
        const { stdout } = await promisify(execFile)("curl", [
          ...["-sS", "-N", "-i", `${proxy.url}/mcp`, "-H", `Authorization: Bearer ${value}`],
          ...["-H", "Content-Type: application/json", "-H", "Accept: application/json, text/event-stream"],
          ...["-d", JSON.stringify(message)],
        ]);
        expect(stdout.toLowerCase()).toContain("mcp-session-id: session-1");
        const [, said = ""] = /^data: (.*)$/m.exec(stdout) ?? [];
        expect(JSON.parse(said)).toMatchObject({ id: 7, result: { serverInfo: { name: "orders" } } });
      });
    });

    test("a WebSocket opens with a key, and without one it does not", async () => {
      const open = async (headers: Record<string, string>) => {
        const socket = new WebSocket(`ws://127.0.0.1:${proxy.port}/socket`, { headers });
        const heard = new Promise<string>((resolve) => {
          socket.addEventListener("message", ({ data }) => resolve(data));
          socket.addEventListener("error", () => resolve("refused"));
        });
        socket.addEventListener("open", () => socket.send("hello"));
        const said = await heard;
        socket.close();
        return said;
      };
      expect(await open({ authorization: `Bearer ${value}`, "x-keyrun-team": "forged" })).toBe("hello");
      expect(wordsOfKeyrun(service.arrived.at(-1)!)).toEqual(accepted());
      const { length } = service.arrived;
      expect(await open({})).toBe("refused");
      expect(service.arrived).toHaveLength(length);
    });

    test("an upload of 100 MB reaches the service, and no byte of it Keyrun", async () => {
      const part = Buffer.alloc(1_000_000);
      for (const length of [{ "content-length": "100000000" }, { "transfer-encoding": "chunked" }]) {
        const before = tap.sent.reduce((sum, { bytes }) => sum + bytes, 0);
        const sent = request(`${proxy.url}/upload`, {
          method: "PUT",
          headers: { authorization: `Bearer ${value}`, ...length },
        });
        const answered = new Promise<number | undefined>((resolve, reject) =>
          sent.on("response", (answer) => resolve(answer.resume().statusCode)).on("error", reject),
        );
        for (let parts = 0; parts < 100; parts += 1)
          if (!sent.write(part)) await new Promise((resolve) => sent.once("drain", resolve));
        sent.end();
        expect(await answered).toBe(200);
        expect(service.arrived.at(-1)).toMatchObject({ url: "/upload", bodyBytes: 100_000_000 });
        expect(tap.sent.reduce((sum, { bytes }) => sum + bytes, 0) - before).toBeLessThan(50_000);
      }
    });

    test("it keeps its connections to Keyrun, also after refusals", async () => {
      const before = tap.sent.length;
      for (let n = 0; n < 40; n += 1) await ask(`${proxy.url}/a`, n % 2 === 0 ? { key: value } : {});
      const opened = tap.sent.slice(before).filter((each) => each.text.includes("/guard"));
      expect(opened.length).toBeLessThan(4);
    });

    test("one caller has used up its address, and another is not held for it", async () => {
      const place = guardProxyNames.indexOf(name) + 1;
      const [flooding, other] = [`127.0.1.${place}`, `127.0.2.${place}`];
      const left = async (from: string) => {
        const refused = await ask(`${proxy.url}/a`, { key: keyrun.unknownKey(), from });
        expect(refused.status).toBe(401);
        return refused.headers.ratelimit;
      };
      for (let n = 1; n < bounds.addressLookupsMax; n += 1) await left(flooding);
      expect(await left(flooding)).toBe('"address";r=0;t=60');
      expect(await left(other)).toBe(`"address";r=${bounds.addressLookupsMax - 1};t=60`);
      expect((await ask(`${proxy.url}/a`, { key: value, from: other })).status).toBe(200);
    });

    test("a revoked key is refused by the next request", async () => {
      const key = await keyrun.newKey(teamId);
      expect((await ask(`${proxy.url}/a`, { key: key.value })).status).toBe(200);
      await keyrun.keys.revokeKey({ teamId, keyId: key.id });
      const refused = await ask(`${proxy.url}/a`, { key: key.value });
      expect([refused.status, codeOf(refused)]).toEqual([401, "revoked_api_key"]);
    });

    test("what is wrong with the service is no fault of the key", async () => {
      const answer = await ask(`${proxy.url}/nonsense`, { key: value });
      expect(answer.status).toBeGreaterThanOrEqual(500);
      expect(answer.body).not.toMatch(/the key/i);
    });

    test("while Keyrun is away nothing passes", async () => {
      const { length } = service.arrived;
      await tap.close();
      expect((await ask(`${proxy.url}/a`, { key: value })).status).toBe(known[name].away);
      expect((await ask(`${proxy.url}/a`)).status).toBe(known[name].away);
      expect(service.arrived).toHaveLength(length);
    });
  });
}

afterAll(() => keyrun?.close());

async function startGuardingKeyrun(): Promise<Keyrun> {
  const started = await startKeyrun({
    settings: {
      KEYRUN_TRUST_PROXY: "1",
      KEYRUN_KEY_HEADER: "X-API-Key",
      KEYRUN_PLAN_LIMITS: "free=100000",
    },
    load: { sheds: () => isBusy },
  });
  teamId = await started.newTeam();
  ({ value, id: keyId } = await started.newKey(teamId));
  const backend = { kind: { case: "guard", value: {} } } as const;
  await started.apps.createApp({ app: { id: "orders", backend, teamIds: [teamId] } });
  return started;
}
