import fc from "fast-check";
import { expect, test } from "vitest";
import { appOn, callerThatLeaves, openAppRunner, refusalOf, runOf } from "../harness/app-backends.ts";
import { begun, piecesOf, readText } from "../harness/streamed-apps.ts";

const echo = appOn({ kind: "echo" });

test.each([
  ["", undefined],
  ["hello", "hello"],
  ["hello big  world\n", "hello "],
  ["  led by spaces", "  "],
  [" \t\n", " \t\n"],
  ["☀ 🌞", "☀ "],
])("echo streams the first word of %j at once, with the whitespace after it", async (text, first) => {
  await using runner = openAppRunner();
  const pieces = await piecesOf(runner.stream(runOf(echo, { text })));
  expect(pieces[0]).toBe(first);
});

test("the pieces of any text are the text, and none is empty", async () => {
  await using runner = openAppRunner();
  const anyText = fc.string({ unit: fc.constantFrom("a", " ", "\n", "é", "🌞", "\u00a0", "\0") });
  await fc.assert(
    fc.asyncProperty(anyText, async (text) => {
      const pieces = await piecesOf(runner.stream(runOf(echo, { text })));
      expect(pieces.join("")).toBe(text);
      expect(pieces).not.toContain("");
    }),
  );
});

test("a lone surrogate is refused, after what came before", async () => {
  await using runner = openAppRunner();
  expect(await readText(runner.stream(runOf(echo, { text: "a \ud83c b" })))).toMatchObject({
    text: "a ",
    refusal: { reason: "APP_FAILED" },
  });
});

test("an echo ends like any other stream: by its caller, by its time, and at the end of Keyrun", async () => {
  const runner = openAppRunner();
  const start = (facts = {}) => begun(runner.stream(runOf(echo, facts)));
  const caller = callerThatLeaves();
  const left = await start({ text: "a b", signal: caller.signal });
  expect(await left.next()).toMatchObject({ value: "a " });
  caller.leave();
  await expect(left.next()).rejects.toMatchObject({ reason: "CANCELLED" });

  const hasty = appOn({ kind: "echo" }, { streamTimeoutMs: 1 });
  const late = await begun(runner.stream(runOf(hasty, { text: "a b" })));
  expect(await late.next()).toMatchObject({ value: "a " });
  await new Promise((passed) => setTimeout(passed, 20));
  await expect(late.next()).rejects.toMatchObject({ reason: "APP_TIMEOUT" });

  const stopped = await start({ text: "a b" });
  expect(await stopped.next()).toMatchObject({ value: "a " });
  await runner.close();
  await expect(stopped.next()).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  expect(await refusalOf(start().then(() => "a stream"))).toMatchObject({ reason: "UNAVAILABLE" });
});
