import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bodyOf, serveHttp } from "../harness/app-backends.ts";
import type { Caller } from "../harness/callers.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { answersIn, rawSocket } from "../harness/raw-socket.ts";
import { everyCaller } from "./every-caller.ts";
import { asks, createGuard, type GuardAsk } from "./guards.ts";

const keyrun = closedAtEnd(
  await startKeyrun({
    logLevel: "trace",
    settings: { KEYRUN_KEY_HEADER: "X-API-Key", KEYRUN_ACCESS_LOG: "true", KEYRUN_PLAN_LIMITS: "free=1000" },
  }),
);
const key = await keyrun.newKey("demo");
await createGuard(keyrun, "orders");

const wrong = "The header X-API-Key can't be read. Send it once, with the API key alone.";

describe.each(Object.entries(everyCaller))("a run by %s", (_, make) => {
  let caller: Caller;
  beforeAll(() => {
    caller = make(keyrun.publicUrl);
  });
  afterAll(() => caller.close());
  const run = (headers: Record<string, string>, authorization?: string) =>
    caller.run({ appId: "echo", text: "x", headers, ...(authorization !== undefined && { authorization }) });

  test("takes its key in the header of the setting, whatever Authorization holds", async () => {
    for (const authorization of [undefined, "Basic eDp5", `Bearer ${keyrun.unknownKey()}`]) {
      expect((await run({ "x-api-key": key.value }, authorization)).kind).toBe("ok");
    }
  });

  test("takes its key in Authorization where that header is not sent", async () => {
    expect((await run({}, `Bearer ${key.value}`)).kind).toBe("ok");
    expect(await run({})).toMatchObject({ kind: "refused", code: Code.Unauthenticated });
  });

  test.each(["", `Bearer ${key.value}`, `${key.value}, ${key.value}`])(
    "with no key alone there (%#) is refused in words, also where Authorization has a key",
    async (value) => {
      const outcome = await run({ "x-api-key": value }, `Bearer ${key.value}`);
      expect(outcome).toMatchObject({ kind: "refused", code: Code.Unauthenticated, message: wrong });
    },
  );

  test("with an unknown key there is refused, also where Authorization has a good one", async () => {
    const outcome = await run({ "x-api-key": keyrun.unknownKey() }, `Bearer ${key.value}`);
    expect(outcome).toMatchObject({ kind: "refused", code: Code.Unauthenticated });
  });
});

describe("a guard", () => {
  async function ask(given: GuardAsk) {
    const socket = rawSocket({ port: Number(new URL(keyrun.publicUrl).port) });
    socket.send(asks(given));
    const heard = await socket.until((text) => answersIn(text).length === 1);
    socket.socket.destroy();
    return answersIn(heard)[0]!;
  }

  test.each(["X-API-Key", "x-api-key", "X-Api-KEY"])("takes the key in %s", async (name) => {
    const { status, headers } = await ask({
      headers: [`${name}: ${key.value}`, "Authorization: Basic eDp5"],
    });
    expect([status, headers.get("x-keyrun-key")]).toEqual([200, key.id]);
  });

  test.each<[string, string[]]>([
    ["empty", ["X-API-Key:"]],
    ["twice", [`X-API-Key: ${key.value}`, `X-API-Key: ${key.value}`]],
    ["twice, one of them empty", [`X-API-Key: ${key.value}`, "x-api-key:"]],
  ])("refuses it %s, in words that name it", async (_, headers) => {
    const { status, body } = await ask({ key: key.value, headers });
    expect(status).toBe(401);
    expect(JSON.parse(body).error).toMatchObject({ code: "malformed_authorization", message: wrong });
  });
});

test("the app does not get the header, and no log has the key", async () => {
  const received: string[] = [];
  await using http = await serveHttp(async (request, response) => {
    received.push(request.rawHeaders.join("\n"), await bodyOf(request));
    response.setHeader("Content-Type", "application/json").end('{"text":"done"}');
  });
  const kind = { case: "http", value: { url: http.backend.url } } as const;
  await keyrun.apps.createApp({ app: { id: "web", backend: { kind } } });
  const caller = everyCaller["REST over HTTP/1.1"]!(keyrun.publicUrl);
  const outcome = await caller.run({ appId: "web", text: "x", headers: { "x-api-key": key.value } });
  expect(outcome.kind).toBe("ok");
  await caller.run({ appId: "web", text: "x", headers: { "x-api-key": `${key.value} ` } });
  await caller.run({ appId: "web", text: "x", headers: { "x-api-key": `Bearer ${key.value}` } });
  expect(received.join("\n")).not.toMatch(/x-api-key/i);
  const [, secret = ""] = key.value.split(".");
  for (const text of [received, keyrun.logLines, keyrun.accessLines]) {
    expect(text.length).toBeGreaterThan(0);
    expect(text.join("\n")).not.toContain(secret);
  }
});

test("the document of the API names the header", async () => {
  const document = await (await fetch(`${keyrun.publicUrl}/openapi.json`)).text();
  const { components, paths } = JSON.parse(document);
  expect(components.securitySchemes.keyHeader).toMatchObject({
    type: "apiKey",
    in: "header",
    name: "X-API-Key",
  });
  expect(paths["/api/apps/{app_id}/run"].post.security).toEqual([{ apiKey: [] }, { keyHeader: [] }]);
  expect(paths["/api/keys/revoke-leaked"].post.security).toEqual([]);
});
