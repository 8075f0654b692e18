import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { type IssuedKey, startKeyrun } from "../harness/keyrun.ts";
import { restStreamCallers } from "../harness/rest-stream-callers.ts";
import {
  connectStreamCallers,
  readAll,
  type StreamCaller,
  type StreamRequest,
  textIn,
} from "../harness/stream-callers.ts";
import { startTalkingApp } from "../harness/talking-app.ts";

let texts = 0;

const app = closedAtEnd(await startTalkingApp());
const keyrun = closedAtEnd(
  await startKeyrun({ settings: { KEYRUN_APP_STREAMS_MAX: "8", KEYRUN_BODY_BYTES_MAX: "4096" } }),
);
await keyrun.apps.createApp({ app: { id: "talk", backend: app.backend } });

/** A text that no other run has. */
function newText(): string {
  texts += 1;
  return `text ${texts}`;
}

const callers = { ...restStreamCallers, ...connectStreamCallers };

describe.each(Object.entries(callers))("%s", (name, make) => {
  const isRest = name.startsWith("REST");
  const entry = isRest ? "rest" : name.startsWith("Connect") ? "connect" : "grpc";
  let caller: StreamCaller;
  let key: IssuedKey;
  beforeAll(async () => {
    caller = make(keyrun.publicUrl);
    key = await keyrun.newKey(await keyrun.newTeam(Plan.PRO));
  });
  afterAll(() => caller.close());

  const open = (order: Partial<StreamRequest> = {}) =>
    caller.open({ appId: "talk", authorization: `Bearer ${key.value}`, text: newText(), ...order });
  const count = (outcome: string, status: number) =>
    keyrun.metric(`keyrun_requests_total{entry="${entry}",outcome="${outcome}",status="${status}"}`);

  /** Opens a stream of which the caller has read the first message. */
  async function begun(order: Partial<StreamRequest> = {}) {
    const text = newText();
    const stream = open({ text, ...order });
    const first = stream.next();
    const talk = await app.talk(text);
    talk.begin();
    const { kind } = await first;
    expect(kind).toBe("started");
    return { stream, talk };
  }

  test("echo answers with its input, also where that is empty", async () => {
    for (const text of ["hello, world", "", "日本 \u{1f5dd} und so weiter"]) {
      const stream = open({ appId: "echo", text });
      const { events, end } = await readAll(stream);
      expect(events[0]).toMatchObject({ kind: "started", appId: "echo" });
      expect([textIn(events), end]).toEqual([text, { kind: "end" }]);
    }
  });

  test("each piece comes as the app sends it, after a head with the team's numbers, and counts as one", async () => {
    const before = await count("OK", 200);
    const text = newText();
    const stream = open({ text, headers: { "x-request-id": "mine" } });
    const first = stream.next();
    const talk = await app.talk(text);
    talk.begin();
    expect(await first).toMatchObject({
      kind: "started",
      runId: expect.stringMatching(/^run_/),
      appId: "talk",
    });
    expect(stream.headers.get("x-request-id")).toBe("mine");
    expect(stream.headers.get("ratelimit-policy")).toBe('"team";q=300;w=60');
    const left = Number(stream.headers.get("ratelimit-remaining"));
    for (const piece of ["one ", "two\n", "\u{1f5dd}"]) {
      talk.say(piece);
      expect(await stream.next()).toEqual({ kind: "delta", text: piece });
    }
    expect(await count("OK", 200)).toBe(before);
    talk.end();
    expect(await stream.next()).toEqual({ kind: "end" });
    await expect.poll(() => count("OK", 200)).toBe(before + 1);
    const again = open({ appId: "echo" });
    await readAll(again);
    expect(Number(again.headers.get("ratelimit-remaining"))).toBe(left - 1);
  });

  test("a piece of more than 64 KiB comes in several, cut between code points", async () => {
    const { stream, talk } = await begun();
    const text = `${"a".repeat(65_534)}\u{1f5dd}${"b".repeat(70_000)}`;
    talk.say(text);
    talk.end();
    const { events, end } = await readAll(stream);
    expect([textIn(events), end]).toEqual([text, { kind: "end" }]);
    const sizes = events.map((event) => (event.kind === "delta" ? Buffer.byteLength(event.text) : 0));
    expect(sizes).toEqual([65_534, 65_536, 4_468]);
  });

  test("an app that fails before it has begun is told by a true status", async () => {
    const text = newText();
    const stream = open({ text });
    const first = stream.next();
    (await app.talk(text)).fail(500);
    expect(await first).toEqual({
      kind: "refused",
      code: Code.Unknown,
      reason: "APP_FAILED",
      ...(isRest && { httpStatus: 502 }),
    });
    expect(stream.headers.has("ratelimit-remaining")).toBe(true);
  });

  test.each([
    ["breaks off", (talk: Awaited<ReturnType<typeof app.talk>>) => talk.breakOff()],
    ["sends rubbish", (talk: Awaited<ReturnType<typeof app.talk>>) => talk.sayRubbish("no JSON\n")],
  ])(
    "an app that %s half-way is told in the stream, after what came before, and counted once",
    async (_, spoil) => {
      const before = await count("APP_FAILED", 502);
      const { stream, talk } = await begun();
      talk.say("one");
      expect(await stream.next()).toEqual({ kind: "delta", text: "one" });
      spoil(talk);
      expect(await stream.next()).toEqual({ kind: "refused", code: Code.Unknown, reason: "APP_FAILED" });
      await expect.poll(() => count("APP_FAILED", 502)).toBe(before + 1);
    },
  );

  test.each([
    ["no key", { authorization: undefined }, Code.Unauthenticated, "MISSING_API_KEY", 401],
    ["another's key", { authorization: "Bearer nonsense" }, Code.Unauthenticated, "INVALID_API_KEY", 401],
    ["no such app", { appId: "nowhere" }, Code.NotFound, "APP_NOT_FOUND", 404],
    ["no text", { text: undefined }, Code.InvalidArgument, "INVALID_ARGUMENT", 400],
    ["too much", { text: "x".repeat(5_000) }, Code.ResourceExhausted, "REQUEST_TOO_LARGE", 413],
    [
      "a key for repeats",
      { headers: { "idempotency-key": "one" } },
      Code.InvalidArgument,
      "INVALID_ARGUMENT",
      400,
    ],
  ])(
    "%s is refused before the first message, by a true status",
    async (_, order, code, reason, httpStatus) => {
      const { authorization = `Bearer ${key.value}`, ...rest } = order as Partial<StreamRequest>;
      const given = { appId: "talk", text: newText(), ...rest };
      const sent = {
        ...given,
        ...("authorization" in order && !order.authorization ? {} : { authorization }),
      };
      const { events, end } = await readAll(caller.open(sent as StreamRequest));
      expect(events).toEqual([]);
      expect(end).toEqual({ kind: "refused", code, reason, ...(isRest && { httpStatus }) });
    },
  );

  test("a team past its limit is refused", async () => {
    const spent = await keyrun.newKey(await keyrun.newTeam());
    const authorization = `Bearer ${spent.value}`;
    for (let sent = 0; sent < 60; sent += 1) await readAll(open({ appId: "echo", authorization }));
    const stream = open({ authorization });
    expect(await stream.next()).toMatchObject({ kind: "refused", reason: "RATE_LIMIT_EXCEEDED" });
    expect(Number(stream.headers.get("retry-after"))).toBeGreaterThan(0);
  });

  test("an app has so many streams at once, beside its runs, and a slot is free at the end of one", async () => {
    // An app that no other team has: of a shared one, a team never gets the last quarter.
    const appId = `own-${texts}`;
    await keyrun.apps.createApp({ app: { id: appId, backend: app.backend, teamIds: [key.teamId] } });
    const streams = await Promise.all(Array.from({ length: 8 }, () => begun({ appId })));
    const busy = { kind: "refused", reason: "APP_BUSY", ...(isRest && { httpStatus: 503 }) };
    expect(await open({ appId }).next()).toMatchObject(busy);
    streams[0]!.talk.end();
    expect(await streams[0]!.stream.next()).toEqual({ kind: "end" });
    const others = [...streams.slice(1), await begun({ appId })];
    for (const { talk } of others) talk.end();
    for (const { stream } of others) expect(await stream.next()).toEqual({ kind: "end" });
  });

  test.each([
    ["after the first message", true],
    ["before the app has begun", false],
  ])("a caller that leaves %s ends the app's call at once, and is counted once", async (_, isBegun) => {
    const before = await count("CANCELLED", 499);
    const text = newText();
    const stream = open({ text });
    const first = stream.next();
    const talk = await app.talk(text);
    if (isBegun) {
      talk.begin();
      await first;
    }
    stream.leave();
    await talk.over;
    await expect.poll(() => count("CANCELLED", 499)).toBe(before + 1);
  });

  // At once, as each waits for the next look at its right.
  describe.concurrent("a right that is taken away ends a stream within a second", () => {
    test("its key is revoked", async () => {
      const { value, id, teamId } = await keyrun.newKey(await keyrun.newTeam());
      const { stream, talk } = await begun({ authorization: `Bearer ${value}` });
      talk.say("one");
      expect(await stream.next()).toEqual({ kind: "delta", text: "one" });
      await keyrun.keys.revokeKey({ teamId, keyId: id });
      expect(await stream.next()).toEqual({
        kind: "refused",
        code: Code.Unauthenticated,
        reason: "REVOKED_API_KEY",
      });
      await talk.over;
    });

    test("its key is revoked before the app has begun", async () => {
      const { value, id, teamId } = await keyrun.newKey(await keyrun.newTeam());
      const text = newText();
      const stream = open({ text, authorization: `Bearer ${value}` });
      const first = stream.next();
      const talk = await app.talk(text);
      await keyrun.keys.revokeKey({ teamId, keyId: id });
      expect(await first).toMatchObject({
        kind: "refused",
        reason: "REVOKED_API_KEY",
        ...(isRest && { httpStatus: 401 }),
      });
      await talk.over;
    });

    test("its key expires", async () => {
      const { value, id: keyId, teamId } = await keyrun.newKey(await keyrun.newTeam());
      const { stream, talk } = await begun({ authorization: `Bearer ${value}` });
      talk.say("one");
      expect(await stream.next()).toEqual({ kind: "delta", text: "one" });
      const endMs = Date.now() + 3_000;
      const updateMask = { paths: ["expire_time"] };
      await keyrun.keys.updateKey({ teamId, keyId, updateMask, expireTime: timestampFromMs(endMs) });
      expect(await stream.next()).toEqual({
        kind: "refused",
        code: Code.Unauthenticated,
        reason: "EXPIRED_API_KEY",
      });
      expect(Date.now()).toBeGreaterThanOrEqual(endMs);
      await talk.over;
    });

    test("its key is deleted with its team", async () => {
      const { value, id, teamId } = await keyrun.newKey(await keyrun.newTeam());
      const { stream, talk } = await begun({ authorization: `Bearer ${value}` });
      await keyrun.keys.revokeKey({ teamId, keyId: id });
      await keyrun.teams.deleteTeam({ teamId });
      const end = await stream.next();
      expect(["INVALID_API_KEY", "REVOKED_API_KEY"]).toContain(end.kind === "refused" && end.reason);
      await talk.over;
    });

    test("its team loses the app, or the app is deleted", async () => {
      const id = `lost-${texts}`;
      const gone = { kind: "refused", code: Code.NotFound, reason: "APP_NOT_FOUND" };
      await keyrun.apps.createApp({ app: { id, backend: app.backend } });
      const other = await keyrun.newTeam();
      const limited = await begun({ appId: id });
      await keyrun.apps.updateApp({ app: { id, teamIds: [other] }, updateMask: { paths: ["team_ids"] } });
      expect(await limited.stream.next()).toEqual(gone);
      await keyrun.apps.updateApp({
        app: { id, teamIds: [key.teamId] },
        updateMask: { paths: ["team_ids"] },
      });
      const deleted = await begun({ appId: id });
      await keyrun.apps.deleteApp({ appId: id });
      expect(await deleted.stream.next()).toEqual(gone);
      await Promise.all([limited.talk.over, deleted.talk.over]);
    });
  });

  // Callers of REST name no deadline.
  if (isRest) return;

  test("the caller's deadline ends a stream, after what came before it", async () => {
    const { stream, talk } = await begun({ timeoutMs: 500 });
    talk.say("one");
    expect(await stream.next()).toEqual({ kind: "delta", text: "one" });
    expect(await stream.next()).toMatchObject({ kind: "refused", code: Code.DeadlineExceeded });
    await talk.over;
  });
});
