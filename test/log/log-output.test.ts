import { expect, test } from "vitest";
import { type Clock, systemClock } from "#src/base/clock.ts";
import { createLogOutput, logOutputBounds } from "#src/log/log-output.ts";

/** An output whose reader has room for so many bytes as the test says. */
function outputWithReader(
  changed: Partial<Record<keyof typeof logOutputBounds, number>> = {},
  clock: Clock = systemClock,
) {
  const reader = { room: 0, tries: 0, chunks: [] as Buffer[] };
  const output = createLogOutput({
    clock,
    take(bytes) {
      reader.tries += 1;
      const taken = Buffer.from(bytes.subarray(0, reader.room));
      reader.room -= taken.length;
      if (taken.length > 0) reader.chunks.push(taken);
      return taken.length;
    },
    bounds: {
      ...logOutputBounds,
      ...{ waitingBytesMax: 1_000, accessBytesMax: 500, chunkBytesMax: 20, endMsMax: 50 },
      ...changed,
    },
  });
  const lines = () => Buffer.concat(reader.chunks).toString().split("\n").slice(0, -1);
  return { output, reader, lines, chunks: () => reader.chunks.map(String) };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));
const endless = Number.MAX_SAFE_INTEGER;

test("a line of the log is with a reader who has room before `write` returns", () => {
  const { output, reader, chunks } = outputWithReader();
  reader.room = endless;
  output.write("a\n");
  expect(chunks()).toEqual(["a\n"]);
});

test("access lines of one turn are written together, in chunks of whole lines", async () => {
  const { output, reader, chunks } = outputWithReader();
  reader.room = endless;
  for (let n = 0; n < 5; n++) output.writeAccess(`line ${n}\n`);
  output.writeAccess(`${"x".repeat(40)}\n`);
  expect(chunks()).toEqual([]);
  await turn();
  expect(chunks()).toEqual(["line 0\nline 1\n", "line 2\nline 3\n", "line 4\n", `${"x".repeat(40)}\n`]);
});

test("access lines and other lines come in the order in which they were written", async () => {
  const { output, reader, lines } = outputWithReader();
  reader.room = endless;
  output.writeAccess("1\n");
  output.write("2\n");
  output.writeAccess("3\n");
  await turn();
  reader.room = 0;
  output.write("4\n");
  output.writeAccess("5\n");
  output.write("6\n");
  reader.room = endless;
  await expect.poll(lines).toEqual(["1", "2", "3", "4", "5", "6"]);
});

test("a reader who takes parts of lines gets all of them, whole", async () => {
  const { output, reader, lines } = outputWithReader();
  const written = Array.from({ length: 10 }, (_, n) => `line ${n} ä`);
  for (const line of written) output.write(`${line}\n`);
  const timer = setInterval(() => {
    reader.room = 7;
  }, 1);
  await expect.poll(lines).toHaveLength(10);
  clearInterval(timer);
  expect(Buffer.concat(reader.chunks).toString()).toBe(`${written.join("\n")}\n`);
});

test("access lines are dropped first, and the number of all that is lost is told when there is room", async () => {
  const { output, reader, lines } = outputWithReader();
  for (let n = 0; n < 100; n++) output.writeAccess(`access ${n}\n`);
  for (let n = 0; n < 20; n++) output.write(`other ${n}\n`);
  for (let n = 0; n < 100; n++) output.writeAccess("late\n");
  reader.room = endless;
  await expect.poll(() => lines().join()).toContain("dropped");
  const kept = lines().filter((line) => line.startsWith("access ")).length;
  expect(kept).toBeGreaterThan(20);
  expect(lines().filter((line) => line.startsWith("other "))).toHaveLength(20);
  const told = lines().filter((line) => line.includes("dropped"));
  expect(told.map((line) => JSON.parse(line))).toEqual([
    {
      ...{ level: "warn", time: expect.stringMatching(/^\d{4}-/), dropped: 200 - kept },
      ...{ droppedRequests: 200 - kept, msg: "lines of the log were dropped: their reader is too slow" },
    },
  ]);
});

test("past the bound other lines are dropped and counted too", async () => {
  const { output, reader, lines } = outputWithReader();
  for (let n = 0; n < 500; n++) output.write(`other ${n}\n`);
  reader.room = endless;
  await expect.poll(() => lines().join()).toContain("dropped");
  const kept = lines().filter((line) => line.startsWith("other "));
  expect(kept.join("\n").length).toBeLessThan(1_000);
  expect(kept.at(-1)).toBe(`other ${kept.length - 1}`);
  const told = lines().filter((line) => line.startsWith("{"));
  expect(told.map((line) => JSON.parse(line).dropped)).toEqual([500 - kept.length]);
});

test("a stopped reader is not tried for each line", async () => {
  const { output, reader } = outputWithReader({ retryMsMin: 60_000, retryMsMax: 60_000 });
  for (let n = 0; n < 1_000; n++) {
    output.write("other\n");
    output.writeAccess("access\n");
    if (n % 100 === 0) await turn();
  }
  expect(reader.tries).toBe(1);
});

test("the end writes all that waits, but does not wait longer than its bound for a stopped reader", async () => {
  // Each look at the clock takes a millisecond.
  let nowMs = 0;
  const clock = { ...systemClock, monotonicMs: () => nowMs++ };
  const { output, reader, lines } = outputWithReader({ endMsMax: 50, retryMsMin: 1 }, clock);
  for (let n = 0; n < 500; n++) output.write(`other ${n}\n`);
  reader.room = 100;
  const begunMs = nowMs;
  output.flush();
  expect(nowMs - begunMs).toBeGreaterThanOrEqual(50);
  expect(nowMs - begunMs).toBeLessThan(60);
  reader.room = endless;
  output.flush();
  const told = lines().filter((line) => line.startsWith("{"));
  expect(lines().length - 1 + JSON.parse(told[0] ?? "{}").dropped).toBe(500);
});
