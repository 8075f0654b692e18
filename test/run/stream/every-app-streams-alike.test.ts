import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { fail } from "#src/refusal/refusal.ts";
import { appOn, callerThatLeaves, openAppRunner, refusalOf, runOf } from "../../harness/app-backends.ts";
import { unlessStalled } from "../../harness/eventually.ts";
import {
  type AppKind,
  appKinds,
  begun,
  readText,
  type Script,
  type Talk,
} from "../../harness/streamed-apps.ts";

/** An app whose one talk the test leads. */
async function ledApp(kind: AppKind) {
  const first = Promise.withResolvers<Talk>();
  const app = await kind.serve(first.resolve);
  return Object.assign(app, { talk: first.promise });
}

const says =
  (...texts: string[]): Script =>
  (talk) => {
    for (const text of texts) talk.say(text);
    talk.end();
  };

describe.each(Object.entries(appKinds))("%s", (_, kind: AppKind) => {
  test("streams its output", async () => {
    await using server = await kind.serve(says("one ", "", "two ☀", "\u0000\n"));
    await using runner = openAppRunner();
    const read = await readText(runner.stream(runOf(appOn(server.backend))));
    expect(read).toEqual({ text: "one two ☀\u0000\n" });
  });

  test("that has no output streams nothing", async () => {
    await using server = await kind.serve(says(""));
    await using runner = openAppRunner();
    expect(await readText(runner.stream(runOf(appOn(server.backend))))).toEqual({ text: "" });
  });

  test("gets the text, the request id, and the rest of its stream timeout", async () => {
    await using server = await ledApp(kind);
    await using runner = openAppRunner();
    const app = appOn(server.backend, { timeoutMs: 1_000, streamTimeoutMs: 600_000 });
    const streaming = begun(runner.stream(runOf(app, { text: "hello \u0000☀" })));
    const talk = await server.talk;
    expect(talk).toMatchObject({ text: "hello \u0000☀", requestId: "req-1" });
    expect(talk.msLeft).toBeGreaterThan(500_000);
    expect(talk.msLeft).toBeLessThanOrEqual(600_001);
    talk.end();
    await streaming.catch(() => {});
  });

  test("has begun with the head of its answer, and each piece arrives before the next is sent", async () => {
    await using server = await ledApp(kind);
    await using runner = openAppRunner();
    const streaming = begun(runner.stream(runOf(appOn(server.backend))));
    const talk = await server.talk;
    talk.begin();
    const stream = await streaming;
    if (!kind.isWhole) {
      for (const text of ["a", "b"]) {
        const next = stream.next();
        talk.say(text);
        expect(await next).toEqual({ done: false, value: text });
      }
    }
    talk.say("last");
    talk.end();
    expect(await stream.next()).toEqual({ done: false, value: "last" });
    expect(await stream.next()).toEqual({ done: true, value: undefined });
    expect(await stream.next()).toEqual({ done: true, value: undefined });
  });

  test("that fails before it answers is refused before the stream begins", async () => {
    await using server = await kind.serve((talk) => talk.breakOff());
    await using runner = openAppRunner();
    const refusal = await refusalOf(
      begun(runner.stream(runOf(appOn(server.backend)))).then(() => "a stream"),
    );
    expect(refusal).toMatchObject({ reason: "APP_FAILED", mayHaveRun: true });
  });

  test("that breaks off half-way is APP_FAILED after the pieces before", async () => {
    await using server = await ledApp(kind);
    await using runner = openAppRunner();
    const streaming = begun(runner.stream(runOf(appOn(server.backend))));
    const talk = await server.talk;
    talk.begin();
    const stream = await streaming;
    talk.say("a");
    if (!kind.isWhole) expect(await stream.next()).toEqual({ done: false, value: "a" });
    talk.breakOff();
    await expect(stream.next()).rejects.toMatchObject({ reason: "APP_FAILED", mayHaveRun: true });
    expect(await stream.next()).toEqual({ done: true, value: undefined });
  });

  test("that can't be reached gets nothing, and the caller may repeat", async () => {
    const server = await kind.serve(says("here"));
    await server[Symbol.asyncDispose]();
    await using runner = openAppRunner();
    const refusal = await refusalOf(
      begun(runner.stream(runOf(appOn(server.backend)))).then(() => "a stream"),
    );
    expect(refusal).toMatchObject({ reason: "APP_UNREACHABLE", mayHaveRun: false });
  });

  test("is cancelled at once when its caller leaves: before the answer, while a piece is awaited, and between pieces", async () => {
    await using runner = openAppRunner();
    for (const when of ["before", "awaiting", "between"]) {
      await using server = await ledApp(kind);
      const caller = callerThatLeaves();
      const streaming = begun(runner.stream(runOf(appOn(server.backend), { signal: caller.signal })));
      const talk = await server.talk;
      if (when === "before") {
        caller.leave();
        await expect(streaming).rejects.toMatchObject({ reason: "CANCELLED" });
      } else {
        talk.begin();
        const stream = await streaming;
        const next = when === "awaiting" ? stream.next() : undefined;
        caller.leave();
        await expect(next ?? stream.next()).rejects.toMatchObject({ reason: "CANCELLED" });
        expect(await stream.next()).toEqual({ done: true, value: undefined });
      }
      await talk.gone;
    }
  });

  test("is cancelled when its reader returns", async () => {
    await using runner = openAppRunner();
    await using server = await ledApp(kind);
    const streaming = begun(runner.stream(runOf(appOn(server.backend))));
    const talk = await server.talk;
    talk.begin();
    await (await streaming).return();
    await talk.gone;
  });

  test("whose caller has left already is never started", async () => {
    let talks = 0;
    await using server = await kind.serve(() => {
      talks += 1;
    });
    await using runner = openAppRunner();
    const caller = callerThatLeaves();
    caller.leave(fail("DEADLINE_EXCEEDED"));
    const streaming = begun(runner.stream(runOf(appOn(server.backend), { signal: caller.signal })));
    await expect(streaming).rejects.toMatchObject({ reason: "DEADLINE_EXCEEDED" });
    expect(talks).toBe(0);
  });

  test("ends with UNAVAILABLE when Keyrun stops, and nothing starts after that", async () => {
    await using server = await ledApp(kind);
    const runner = openAppRunner();
    const streaming = begun(runner.stream(runOf(appOn(server.backend))));
    const talk = await server.talk;
    talk.begin();
    const stream = await streaming;
    const next = expect(stream.next()).rejects.toMatchObject({ reason: "UNAVAILABLE", mayHaveRun: true });
    await runner.close();
    await next;
    await talk.gone;
    const later = begun(runner.stream(runOf(appOn(server.backend))));
    await expect(later).rejects.toMatchObject({ reason: "UNAVAILABLE", mayHaveRun: false });
  });

  test("leaves no timer behind, however its stream ends", async () => {
    await using runner = openAppRunner({ silenceMsMax: 60_000 });
    const timers = () => process.getActiveResourcesInfo().filter((each) => each === "Timeout").length;
    async function streamOnce(lead: (talk: Talk, stream: AsyncIterator<string>) => unknown) {
      await using server = await ledApp(kind);
      const caller = callerThatLeaves();
      const streaming = begun(runner.stream(runOf(appOn(server.backend), { signal: caller.signal })));
      const talk = await server.talk;
      talk.begin();
      const stream = await streaming;
      await lead(talk, stream);
    }
    const leads: Record<string, (talk: Talk, stream: AsyncIterator<string>) => unknown> = {
      async end(talk, stream) {
        talk.end();
        while (!(await stream.next()).done);
      },
      async fault(talk, stream) {
        talk.breakOff();
        await expect(stream.next()).rejects.toThrow();
      },
      return: (_talk, stream) => stream.return?.(),
    };
    await streamOnce(leads.end!);
    const before = timers();
    for (let round = 0; round < 5; round += 1) {
      for (const lead of Object.values(leads)) await streamOnce(lead);
    }
    // A connection that is not closed yet has timers of its own.
    await expect.poll(timers).toBeLessThanOrEqual(before + 2);
  });
});

const msMax = 1_000;
/** After a longer pause of the machine, a stream may have ended without a word to the app. */
const stallMsMax = msMax / 2;

/** The app's talk, unless the stream has ended before there is one. */
function talkOf(server: { talk: Promise<Talk> }, streaming: Promise<unknown>): Promise<Talk> {
  return Promise.race([server.talk, streaming.then(() => server.talk)]);
}

// They mostly wait, so those of all kinds wait at once.
describe.concurrent.each(Object.entries(appKinds))("%s", (_, kind: AppKind) => {
  test.for([
    { when: "before its answer", begins: false },
    { when: "in the middle", begins: true },
  ])("that is silent for too long $when is APP_TIMEOUT", ({ begins }, { expect }) =>
    unlessStalled(stallMsMax, async () => {
      await using runner = openAppRunner({ silenceMsMax: msMax });
      await using server = await ledApp(kind);
      const streaming = begun(runner.stream(runOf(appOn(server.backend))));
      const ended = streaming.then(readText, (refusal) => ({ text: "", refusal }));
      const talk = await talkOf(server, streaming);
      if (begins) talk.begin();
      expect(await ended).toMatchObject({ text: "", refusal: { reason: "APP_TIMEOUT", mayHaveRun: true } });
      if (!begins) await talk.gone;
    }),
  );

  test("past its stream timeout is APP_TIMEOUT, however much it says, and its call is cancelled", ({
    expect,
  }) =>
    unlessStalled(stallMsMax, async () => {
      await using server = await ledApp(kind);
      await using runner = openAppRunner();
      const streaming = begun(runner.stream(runOf(appOn(server.backend, { streamTimeoutMs: msMax }))));
      const talk = await talkOf(server, streaming);
      talk.begin();
      const saying = setInterval(() => talk.say("on "), 5);
      const { refusal } = await streaming.then(readText).finally(() => clearInterval(saying));
      expect(refusal).toMatchObject({ reason: "APP_TIMEOUT", mayHaveRun: true });
      await talk.gone;
    }));

  if (kind.isWhole) return;

  test("stays alive by signs of life and by pieces alone", ({ expect }) =>
    unlessStalled(stallMsMax, async () => {
      await using server = await kind.serve((talk) => {
        let signs = 0;
        const living = setInterval(() => {
          signs += 1;
          if (signs % 10 === 0) talk.say("on ");
          else talk.live();
          if (signs < 80) return;
          clearInterval(living);
          talk.end();
        }, 40);
      });
      await using runner = openAppRunner({ silenceMsMax: msMax });
      const startedMs = performance.now();
      const { text, refusal } = await readText(runner.stream(runOf(appOn(server.backend))));
      expect({ text, refusal }).toEqual({
        text: "on ".repeat(8),
        refusal: undefined,
      });
      expect(performance.now() - startedMs).toBeGreaterThan(3 * msMax);
    }));

  test("isn't blamed for the time that its reader takes", ({ expect }) =>
    unlessStalled(stallMsMax, async () => {
      await using server = await ledApp(kind);
      await using runner = openAppRunner({ silenceMsMax: msMax });
      const streaming = begun(runner.stream(runOf(appOn(server.backend))));
      const talk = await server.talk;
      talk.say("a");
      const stream = await streaming;
      expect(await stream.next()).toEqual({ done: false, value: "a" });
      await pause(2 * msMax);
      talk.say("b");
      expect(await stream.next()).toEqual({ done: false, value: "b" });
      await stream.return?.();
    }));
});

const streaming = Object.entries(appKinds).filter(([, { isWhole }]) => !isWhole);

describe.each(streaming)("%s", (_, kind: AppKind) => {
  test("is slowed down by a slow reader, loses nothing, and takes nothing from other runs", async () => {
    const piece = "x".repeat(1_000);
    const total = 16_000;
    let said = 0;
    let isStalled = false;
    await using server = await kind.serve(async (talk) => {
      if (talk.text === "quick") return says("here")(talk);
      for (; said < total; said += 1) {
        if (talk.say(piece)) continue;
        isStalled = true;
        await talk.drained();
        isStalled = false;
      }
      talk.end();
    });
    await using runner = openAppRunner({ outputBytesMax: 2_000 });
    const app = appOn(server.backend);
    const stream = await begun(runner.stream(runOf(app, { text: "slow" })));
    const first = await stream.next();
    expect(first.value).toMatch(/^x+$/);
    let seen = -1;
    await expect
      .poll(() => {
        const isQuiet = isStalled && said === seen;
        seen = said;
        return isQuiet;
      })
      .toBe(true);
    // The kernel's buffers of both sides hold some megabytes.
    expect(said).toBeLessThan(total * 0.8);
    expect(await readText(runner.stream(runOf(app, { text: "quick" })))).toEqual({ text: "here" });
    const { text } = await readText(stream);
    expect(`${first.value}`.length + text.length).toBe(total * piece.length);
  });

  test("may say 16 MiB and no more, each piece within the bound of an app's answer", async () => {
    const mebibyte = 1024 * 1024;
    const piece = "é".repeat(mebibyte / 4);
    await using server = await kind.serve((talk) => {
      const count = Number(talk.text);
      for (let index = 0; index < 32; index += 1) talk.say(piece);
      if (count > 32) talk.say("x");
      talk.end();
    });
    await using runner = openAppRunner({ outputBytesMax: mebibyte });
    const app = appOn(server.backend);
    const whole = await readText(runner.stream(runOf(app, { text: "32" })));
    expect(whole.refusal).toBeUndefined();
    expect(whole.text.length).toBe(32 * piece.length);
    const { text, refusal } = await readText(runner.stream(runOf(app, { text: "33" })));
    expect(text.length).toBeLessThanOrEqual(32 * piece.length);
    expect(refusal).toMatchObject({ reason: "APP_FAILED", mayHaveRun: true });
    await using small = openAppRunner({ outputBytesMax: mebibyte / 4 });
    expect(await readText(small.stream(runOf(app, { text: "32" })))).toMatchObject({
      text: "",
      refusal: { reason: "APP_FAILED" },
    });
  });
});
