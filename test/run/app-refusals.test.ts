import { setImmediate as turn } from "node:timers/promises";
import { create, toBinary } from "@bufbuild/protobuf";
import { AnySchema } from "@bufbuild/protobuf/wkt";
import { type Metadata, status } from "@grpc/grpc-js";
import { describe, expect, test } from "vitest";
import { StatusSchema } from "#gen/google/rpc/status_pb.ts";
import type { BackendRecord, HeaderRecord } from "#src/apps/app-store.ts";
import { systemClock } from "#src/base/clock.ts";
import type { Refusal } from "#src/refusal/refusal.ts";
import {
  appOn,
  callerThatLeaves,
  detailsTrailer,
  openAppRunner,
  refusalOf,
  retryIn,
  runOf,
  serveGrpc,
  serveHttp,
} from "../harness/app-backends.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { begun, readText, serveGrpcApp } from "../harness/streamed-apps.ts";

type Ways = "run" | "stream";
type Body = string | Buffer;

/** What a run of an app ends with that answers so over HTTP, and how often the app was called. */
async function answeredOverHttp(
  way: Ways,
  answer: {
    status: number;
    headers?: Record<string, string>;
    body?: Body;
    appHeaders?: HeaderRecord[];
  },
): Promise<{ refusal: Refusal; requests: number }> {
  await using server = await serveHttp((request, response) => {
    request.resume();
    response.writeHead(answer.status, answer.headers).end(answer.body);
  });
  const refusal = await refusedBy({ ...server.backend, headers: answer.appHeaders ?? [] }, way);
  return { refusal, requests: server.seen.requests };
}

async function refusedBy(backend: BackendRecord, way: Ways): Promise<Refusal> {
  await using runner = openAppRunner();
  const run = runOf(appOn(backend));
  return await refusalOf(way === "run" ? runner.run(run) : begun(runner.stream(run)).then(() => "a stream"));
}

const saying = (message: unknown) => JSON.stringify({ error: { message } });

describe.each(["run", "stream"] as const)("the %s of an HTTP app", (way) => {
  test.each([400, 422])(
    "that answers %i with words is refused with them, once, and logs no stack",
    async (code) => {
      const body = saying("The order has no address.");
      const { refusal, requests } = await answeredOverHttp(way, { status: code, body });
      expect(refusal).toMatchObject({
        reason: "APP_REFUSED",
        message: "The order has no address.",
        mayHaveRun: true,
        cause: `The app answered ${code}.`,
      });
      expect(requests).toBe(1);
    },
  );

  test.each([
    ["error.message", saying("No address."), "No address."],
    ["message", '{"statusCode":422,"message":"No address."}', "No address."],
    ["detail", '{"detail":"No address."}', "No address."],
    [
      "FastAPI's list",
      '{"detail":[{"type":"missing","loc":["body","query"],"msg":"Field required","input":{"text":"s"}},{"loc":["body",3],"msg":"No digit"}]}',
      "body.query: Field required; body.3: No digit",
    ],
    ["a list without places", '{"detail":[{"msg":"Field required"},7]}', "Field required"],
  ])("that answers 422 with words in %s is refused with them", async (_, body, message) => {
    const { refusal } = await answeredOverHttp(way, { status: 422, body });
    expect(refusal).toMatchObject({ reason: "APP_REFUSED", message, cause: "The app answered 422." });
  });

  test.each([
    ["no body", ""],
    ["no JSON", "the order has no address"],
    ["the JSON of another house", '{"reason":"no address"}'],
    ["an error that is a string", '{"error":"no address"}'],
    ["a message that is no string", saying(["no address"])],
    ["a list of strange things", '{"detail":[7,{"loc":["body"]},null]}'],
    ["an empty list", '{"detail":[]}'],
    ["an empty message", saying(" \n\t ")],
    ["null", "null"],
    ["more than 16 KiB", saying("x".repeat(16_384))],
    ["nothing but brackets", "[".repeat(16_000)],
    ["bytes that are no UTF-8", Buffer.from(saying("\xff"), "latin1")],
  ])("that answers 422 with %s has failed, and the log says what was missing", async (_, body) => {
    const { refusal } = await answeredOverHttp(way, { status: 422, body });
    expect(refusal).toMatchObject({ reason: "APP_FAILED", mayHaveRun: true });
    expect(refusal.cause).toMatch(
      /^The backend answered 422, not 200(\. Its body has no words for the caller|, with too long a body to read)\.$/,
    );
  });

  test.each([
    [201, "The backend answered 201, not 200."],
    [302, "The backend answered 302, not 200. It redirects, and Keyrun follows no redirect."],
    [401, "The backend answered 401, not 200. It does not take the headers that it is given."],
    [404, "The backend answered 404, not 200. It has nothing at the path of the app's URL."],
    [405, "The backend answered 405, not 200. It takes no POST at the path of the app's URL."],
    [500, "The backend answered 500, not 200. It failed inside: its own log says why."],
  ])("that answers %i has failed, and the log says what that means", async (code, cause) => {
    const { refusal } = await answeredOverHttp(way, { status: code, body: "secret words" });
    expect(refusal).toMatchObject({ reason: "APP_FAILED", mayHaveRun: true, cause });
  });

  test("that answers 422 with a compressed body has failed", async () => {
    const headers = { "content-encoding": "gzip" };
    const { refusal } = await answeredOverHttp(way, { status: 422, headers, body: saying("no") });
    expect(refusal).toMatchObject({ reason: "APP_FAILED" });
  });

  test("that answers 422 without end is cut off at the bound", async () => {
    const closed = Promise.withResolvers<void>();
    await using server = await serveHttp((request, response) => {
      request.resume();
      const more = () => {
        while (!response.destroyed && response.write("x".repeat(65_536)));
      };
      response.writeHead(422).on("drain", more).on("close", closed.resolve);
      more();
    });
    expect(await refusedBy(server.backend, way)).toMatchObject({ reason: "APP_FAILED" });
    await closed.promise;
  });

  const toCome = new Date(Date.now() + 40_000).toUTCString();
  const [, day, month, year = "", time] = /, (\d\d) (\w+) (\d+) ([\d:]+)/.exec(toCome)!;

  test.each([
    ["7", 429, "7", 7_000],
    ["7", 503, "7", 7_000],
    ["0", 503, "0", 1_000],
    ["a fraction", 429, "1.5", 1_500],
    ["a fraction", 503, "2.25", 2_250],
    ["a day", 503, "86400", 60_000],
    ["400 digits", 503, "9".repeat(400), 60_000],
    ["a date of the past", 503, new Date(0).toUTCString(), 1_000],
    ["a date to come", 503, new Date(4e12).toUTCString(), 60_000],
    ["RFC 850's date of the past", 429, "Sunday, 06-Nov-94 08:49:37 GMT", 1_000],
    ["C's date of the past", 429, "Sun Nov  6 08:49:37 1994", 1_000],
    ["C's date to come", 503, "Wed Oct  2 07:06:40 2096", 60_000],
    ["absent", 429, undefined, 1_000],
    ["empty", 429, "", 1_000],
    ["empty", 503, "", 1_000],
    ["soon", 429, "soon", 1_000],
    ["soon", 503, "soon", 1_000],
    ["-1", 503, "-1", 1_000],
    ["no date", 503, "Thu, 99 Jan 2026 00:00:00 GMT", 1_000],
  ])("whose Retry-After is %s, with a %i, is busy, and has not run", async (_, code, value, waitMs) => {
    const { refusal, requests } = await answeredOverHttp(way, {
      status: code,
      ...(value !== undefined && { headers: { "retry-after": value } }),
    });
    expect(refusal).toMatchObject({ reason: "APP_BUSY", retryAfterMs: waitMs, mayHaveRun: false });
    expect(refusal.message).toContain(`in ${Math.ceil(waitMs / 1_000)} s`);
    expect(typeof refusal.cause).toBe("string");
    expect(requests).toBe(1);
  });

  test.each([
    ["of today", toCome],
    ["of RFC 850", `Someday, ${day}-${month}-${year.slice(2)} ${time} GMT`],
    ["of C", `Any ${month} ${day!.replace(/^0/, " ")} ${time} ${year}`],
  ])("that is busy until a date in the form %s is waited for until then", async (_, value) => {
    const headers = { "retry-after": value };
    const { refusal } = await answeredOverHttp(way, { status: 429, headers });
    expect(refusal.reason).toBe("APP_BUSY");
    expect(refusal.retryAfterMs).toBeGreaterThan(1_000);
    expect(refusal.retryAfterMs).toBeLessThanOrEqual(40_000);
  });

  test.each([
    [503, undefined],
    [500, "7"],
    [502, "7"],
    [422, "7"],
  ])("that answers %i with Retry-After: %s has failed", async (code, value) => {
    const headers = value === undefined ? {} : { "retry-after": value };
    const { refusal } = await answeredOverHttp(way, { status: code, headers });
    expect(refusal).toMatchObject({ reason: "APP_FAILED", mayHaveRun: true });
    expect(refusal.cause).toMatch(new RegExp(`^The backend answered ${code}, not 200\\.`));
  });

  test("has its secrets and what may be a key cut out of the words that refuse it", async () => {
    const key = `svc_${"0".repeat(24)}.${"aB3".repeat(16)}z`;
    const words = `Basic dTpwYXNz, dTpwYXNz and own-secret are wrong, like ${key} and Bearer abc`;
    const { refusal } = await answeredOverHttp(way, {
      status: 400,
      body: saying(words),
      appHeaders: [
        { name: "authorization", value: "Basic dTpwYXNz" },
        { name: "x-api-key", value: "own-secret" },
      ],
    });
    const [, rest] = key.split(".");
    expect(refusal.reason).toBe("APP_REFUSED");
    for (const secret of ["dTpwYXNz", "own-secret", rest, "abc"])
      expect(refusal.message).not.toContain(secret);
    expect(refusal.message).toMatch(/^\[redacted\], \[redacted\] and \[redacted\] are wrong, like svc_0+/);
  });
});

test("an app that refuses keeps its connection for the next run", async () => {
  await using server = await serveHttp((request, response) => {
    request.resume();
    response.writeHead(422).end(saying("no"));
  });
  server.keepConnections();
  await using runner = openAppRunner();
  for (let runs = 0; runs < 3; runs += 1) {
    await refusalOf(runner.run(runOf(appOn(server.backend))));
    await turn();
  }
  expect(server.seen).toEqual({ requests: 3, connections: 1 });
});

async function answeredOverGrpc(answer: { code: status; details: string; metadata?: Metadata }) {
  await using server = await serveGrpc((_, callback) => callback(answer));
  const refusal = await refusedBy(server.backend, "run");
  return { refusal, runs: server.seen.runs };
}

describe("a gRPC app", () => {
  test.each([status.INVALID_ARGUMENT, status.FAILED_PRECONDITION])(
    "that answers %i with a message refuses the run with it, once, and logs no stack",
    async (code) => {
      const { refusal, runs } = await answeredOverGrpc({ code, details: "No address\n in it. ☀" });
      expect(refusal).toMatchObject({
        reason: "APP_REFUSED",
        message: "No address  in it. ☀",
        mayHaveRun: true,
        cause: `The app answered ${code} ${status[code]}.`,
      });
      expect(runs).toBe(1);
    },
  );

  test.each([
    ["INVALID_ARGUMENT without a message", { code: status.INVALID_ARGUMENT, details: "" }],
    ["another status with a message", { code: status.NOT_FOUND, details: "No address." }],
    ["UNAVAILABLE without RetryInfo", { code: status.UNAVAILABLE, details: "busy" }],
    [
      "UNAVAILABLE with details that can't be read",
      { code: status.UNAVAILABLE, details: "busy", metadata: detailsTrailer(Buffer.from([0xff, 0xff])) },
    ],
    ["RESOURCE_EXHAUSTED alone", { code: status.RESOURCE_EXHAUSTED, details: "busy" }],
    ["ABORTED with RetryInfo", { code: status.ABORTED, details: "busy", metadata: retryIn(7n) }],
  ])("that answers %s has failed, as before", async (_, answer) => {
    const { refusal } = await answeredOverGrpc(answer);
    expect(refusal).toMatchObject({ reason: "APP_FAILED", mayHaveRun: true });
    expect(refusal.message).not.toContain("busy");
    expect(refusal.message).not.toContain("address");
  });

  test.each([
    [status.RESOURCE_EXHAUSTED, 7n, 0, 7_000],
    [status.UNAVAILABLE, 7n, 500_000_000, 7_500],
    [status.UNAVAILABLE, 0n, 0, 1_000],
    [status.UNAVAILABLE, -7n, 0, 1_000],
    [status.UNAVAILABLE, 86_400n, 0, 60_000],
  ])(
    "that answers %i with a RetryInfo of %i s is busy, and has not run",
    async (code, seconds, nanos, waitMs) => {
      const metadata = retryIn(seconds, nanos);
      const { refusal, runs } = await answeredOverGrpc({ code, details: "busy", metadata });
      expect(refusal).toMatchObject({ reason: "APP_BUSY", retryAfterMs: waitMs, mayHaveRun: false });
      expect(runs).toBe(1);
    },
  );

  test.each([
    ["without a wait", new Uint8Array()],
    ["whose wait can't be read", Uint8Array.of(0x0a, 0x7f)],
  ])("that answers with a RetryInfo %s is busy for a second", async (_, value) => {
    const details = [create(AnySchema, { typeUrl: "type.googleapis.com/google.rpc.RetryInfo", value })];
    const metadata = detailsTrailer(toBinary(StatusSchema, create(StatusSchema, { code: 14, details })));
    const { refusal } = await answeredOverGrpc({ code: status.UNAVAILABLE, details: "busy", metadata });
    expect(refusal).toMatchObject({ reason: "APP_BUSY", retryAfterMs: 1_000, mayHaveRun: false });
  });

  test.each([
    ["refuses", status.INVALID_ARGUMENT, undefined, { reason: "APP_REFUSED", message: "its words" }],
    ["says that it did nothing", status.UNAVAILABLE, retryIn(7n), { reason: "APP_FAILED", mayHaveRun: true }],
  ])("that %s after a part of its output: the stream ends so", async (_, code, metadata, refusal) => {
    await using server = await serveGrpcApp({
      streamRun(talk) {
        talk.say("one ");
        talk.fail({ code, details: "its words", ...(metadata && { metadata }) });
      },
    });
    await using runner = openAppRunner();
    const read = await readText(runner.stream(runOf(appOn(server.backend))));
    expect(read).toMatchObject({ text: "one ", refusal });
    // A run of the same app has not freed its key, either.
    const whole = await refusalOf(runner.run(runOf(appOn(server.backend))));
    expect(whole).toMatchObject(refusal);
  });
});

describe("the deadline that an app is told", () => {
  const told = { run: [] as number[], stream: [] as number[] };
  const note = (way: Ways) => (msLeft: number) => void told[way].push(msLeft);

  test.each([
    ["its caller's, where that is less", 1_500, 1_500],
    ["its own, where its caller has more", 60_000, 10_000],
    ["its own, where its caller named none", undefined, 10_000],
    ["0 where its caller's has passed", -5, 0],
  ])("over HTTP is %s", async (_, callerMs, expected) => {
    const clock = createManualClock();
    const seen: unknown[] = [];
    await using server = await serveHttp((request, response) => {
      request.resume();
      seen.push(request.headers["x-keyrun-deadline-ms"]);
      response.end('{"text":""}');
    });
    await using runner = openAppRunner({ clock, timers: clock });
    const app = appOn(server.backend, { streamTimeoutMs: 10_000 });
    const order = () => runOf(app, { callerMsLeft: () => callerMs });
    await runner.run(order());
    for await (const _piece of runner.stream(order()));
    expect(seen).toEqual([String(expected), String(expected)]);
  });

  test("over gRPC is the lesser of its own and its caller's, of runs and of streams", async () => {
    const begin = systemClock.unixMs();
    await using server = await serveGrpcApp({
      run: (talk) => {
        note("run")(talk.msLeft);
        talk.end();
      },
      streamRun: (talk) => {
        note("stream")(talk.msLeft);
        talk.end();
      },
    });
    await using runner = openAppRunner();
    const app = appOn(server.backend, { timeoutMs: 900_000, streamTimeoutMs: 900_000 });
    for (const callerMs of [600_000, undefined]) {
      const order = () => runOf(app, { callerMsLeft: () => callerMs });
      await runner.run(order());
      for await (const _piece of runner.stream(order()));
    }
    const tookMs = systemClock.unixMs() - begin;
    for (const [ofCaller = 0, own = 0] of [told.run, told.stream]) {
      expect(ofCaller).toBeGreaterThan(600_000 - tookMs - 1_000);
      expect(ofCaller).toBeLessThanOrEqual(600_001);
      expect(own).toBeGreaterThan(900_000 - tookMs - 1_000);
    }
  });

  test("of a caller that has passed is the caller's end: no app failed, and its channel is kept", async () => {
    const peers = new Set<string>();
    await using server = await serveGrpc((call, answer) => {
      peers.add(call.getPeer());
      if (call.request.text === "hang") answer({ code: status.DEADLINE_EXCEEDED, details: "too late" });
      else answer(null, { text: "" });
    });
    await using runner = openAppRunner();
    const app = appOn(server.backend);
    await runner.run(runOf(app));
    const { signal } = callerThatLeaves();
    const late = runOf(app, { text: "hang", callerMsLeft: () => 1, signal });
    expect(await refusalOf(runner.run(late))).toMatchObject({
      reason: "DEADLINE_EXCEEDED",
      mayHaveRun: true,
    });
    await runner.run(runOf(app));
    expect(peers.size).toBe(1);
    const app2 = runOf(app, { text: "hang", callerMsLeft: () => 600_000 });
    expect(await refusalOf(runner.run(app2))).toMatchObject({ reason: "APP_TIMEOUT" });
  });
});
