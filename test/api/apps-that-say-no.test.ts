import { Code } from "@connectrpc/connect";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { bodyOf, retryIn, serveGrpc, serveHttp } from "../harness/app-backends.ts";
import type { RunOutcome } from "../harness/callers.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { restCaller } from "../harness/rest-caller.ts";
import { connectStreamCallers, readAll } from "../harness/stream-callers.ts";
import { everyCaller } from "./every-caller.ts";

/** What the apps answer: each says no in the words of its protocol, by the text of its run. */
const told: { keyId?: unknown; msLeft: number }[] = [];

const secret = "secret-of-the-operator";
const words = `There is no such order. ${secret}`;

const http = await serveHttp(async (request, response) => {
  const { keyId, text } = JSON.parse(await bodyOf(request));
  told.push({ keyId, msLeft: Number(request.headers["x-keyrun-deadline-ms"]) });
  if (text === "refuse") response.writeHead(422).end(JSON.stringify({ error: { message: words } }));
  else if (text === "busy") response.writeHead(429, { "retry-after": "7" }).end();
  else if (text === "busy alone") response.writeHead(429).end();
  else if (text === "busy in part") response.writeHead(503, { "retry-after": "1.5" }).end();
  else if (text === "bad") response.writeHead(422).end("{}");
  else response.end('{"text":"done"}');
});
const grpc = await serveGrpc((call, answer) => {
  const { keyId, text } = call.request;
  told.push({ keyId, msLeft: Number(call.getDeadline()) - Date.now() });
  if (text === "refuse") answer({ code: status.INVALID_ARGUMENT, details: words.replace(secret, "") });
  else if (text === "busy") answer({ code: status.UNAVAILABLE, details: "busy", metadata: retryIn(7n) });
  else if (text === "bad") answer({ code: status.NOT_FOUND, details: words });
  else answer(null, { text: "done" });
});
const keyrun = closedAtEnd(await startKeyrun());
const { url } = http.backend;
const headers = [{ name: "x-own-secret", value: secret }];
const { target } = grpc.backend;
const timeout = { seconds: 25n, nanos: 0 };
await keyrun.apps.createApp({
  app: { id: "http", timeout, backend: { kind: { case: "http", value: { url, headers } } } },
});
await keyrun.apps.createApp({
  app: { id: "grpc", timeout, backend: { kind: { case: "grpc", value: { target } } } },
});
const key = await keyrun.newKey(await keyrun.newTeam(Plan.ENTERPRISE));

afterAll(async () => {
  await http[Symbol.asyncDispose]();
  await grpc[Symbol.asyncDispose]();
});

beforeEach(() => {
  told.length = 0;
});

/** The one line that the log has of a request. */
function lineOf({ headers }: RunOutcome): unknown {
  const id = `"requestId":"${headers.get("x-request-id")}"`;
  const lines = keyrun.logLines.filter((line) => line.includes(id));
  expect(lines).toHaveLength(1);
  expect(lines[0]).not.toContain("stack");
  expect(lines[0]).not.toContain("order");
  return JSON.parse(lines[0]!);
}

test.each(["busy alone", "busy in part"])(
  "an app that is %s is asked again with the same Idempotency-Key",
  async (text) => {
    const caller = restCaller(keyrun.publicUrl);
    const authorization = `Bearer ${key.value}`;
    const headers = { "idempotency-key": text.replaceAll(" ", "-") };
    for (const asked of [1, 2]) {
      const busy = await caller.run({ appId: "http", text, authorization, headers });
      expect(busy).toMatchObject({ httpStatus: 503, details: [{ reason: "APP_BUSY" }, {}] });
      expect(busy.headers.get("idempotent-replayed")).toBeNull();
      expect(told).toHaveLength(asked);
    }
    caller.close();
  },
);

test.each(Object.entries(connectStreamCallers))(
  "the app of a stream by %s knows how long its caller waits",
  async (_, make) => {
    const caller = make(keyrun.internalUrl);
    for (const appId of ["http", "grpc"]) {
      const authorization = `Bearer ${key.value}`;
      const stream = caller.open({ appId, text: "x", authorization, timeoutMs: 9_000 });
      expect((await readAll(stream)).end).toEqual({ kind: "end" });
    }
    caller.close();
    expect(told).toHaveLength(2);
    for (const { msLeft } of told) expect(msLeft).toBeLessThanOrEqual(9_001);
  },
);

describe.each(Object.entries(everyCaller))("%s", (name, make) => {
  const isRest = name.startsWith("REST");
  const hasDeadline = !isRest;
  async function run(appId: string, text: string, headers: Record<string, string> = {}): Promise<RunOutcome> {
    const caller = make(isRest ? keyrun.publicUrl : keyrun.internalUrl);
    const outcome = await caller.run({ appId, text, authorization: `Bearer ${key.value}`, headers });
    caller.close();
    return outcome;
  }

  describe.each(["http", "grpc"])("of an app behind %s", (appId) => {
    test("gets the words with which it refuses, and no secret in them; the log has one line without either", async () => {
      const refused = await run(appId, "refuse");
      expect(refused).toMatchObject({
        kind: "refused",
        code: Code.InvalidArgument,
        details: [{ reason: "APP_REFUSED" }],
      });
      expect(refused.kind === "refused" && refused.message).toMatch(
        /^There is no such order\.( \[redacted\])?$/,
      );
      if (isRest) expect(refused).toMatchObject({ httpStatus: 422 });
      expect(refused.headers.get("x-should-retry")).toBe("false");
      expect(lineOf(refused)).toMatchObject({ level: "warn", reason: "APP_REFUSED", appId });
    });

    test("is told to come back when the app says, and may repeat: it did nothing; the log has one line", async () => {
      const busy = await run(appId, "busy");
      expect(busy).toMatchObject({ kind: "refused", code: Code.Unavailable });
      expect(busy).toMatchObject({ details: [{ reason: "APP_BUSY" }, { retryDelay: "7s" }] });
      if (isRest) expect(busy).toMatchObject({ httpStatus: 503 });
      expect(busy.headers.get("retry-after")).toBe("7");
      expect(busy.headers.get("x-should-retry")).toBeNull();
      expect(lineOf(busy)).toMatchObject({ level: "warn", reason: "APP_BUSY", appId });
    });

    test("gets APP_FAILED for every other answer, in one line of the log", async () => {
      const failed = await run(appId, "bad");
      expect(failed).toMatchObject({
        kind: "refused",
        code: Code.Unknown,
        details: [{ reason: "APP_FAILED" }],
      });
      expect(failed.headers.get("x-should-retry")).toBe("false");
      const id = `"requestId":"${failed.headers.get("x-request-id")}"`;
      const lines = keyrun.logLines.filter((line) => line.includes(id)).map((line) => JSON.parse(line));
      expect(lines).toMatchObject([{ level: "warn", reason: "APP_FAILED", cause: expect.any(String) }]);
    });

    test("lets the app know its key, and how long it waits, but not where the run goes on without it", async () => {
      const deadline = name.startsWith("Connect")
        ? { "connect-timeout-ms": "9000" }
        : { "grpc-timeout": "9S" };
      await run(appId, "x", hasDeadline ? deadline : {});
      await run(appId, "x", {
        ...(hasDeadline && deadline),
        "idempotency-key": `${name} ${appId}`.replaceAll(" ", "-"),
      });
      expect(told.map(({ keyId }) => keyId)).toEqual([key.id, key.id]);
      const [waiting = Number.NaN, going = Number.NaN] = told.map(({ msLeft }) => msLeft);
      if (hasDeadline) expect(waiting).toBeLessThanOrEqual(9_001);
      else expect(waiting).toBeGreaterThan(9_001);
      // A busy machine may take a while, and yet it has less than 15 s to lose.
      expect(going).toBeGreaterThan(10_000);
    });
  });
});
