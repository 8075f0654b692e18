import { describe, expect, test } from "vitest";
import { runBounds } from "#src/run/run-bounds.ts";
import { appOn, openAppRunner, runOf } from "../../harness/app-backends.ts";
import { countTurns } from "../../harness/counted-turns.ts";
import { appKinds, piecesOf } from "../../harness/streamed-apps.ts";

const echo = appOn({ kind: "echo" });
const streaming = Object.entries(appKinds).filter(([, { isWhole }]) => !isWhole);

test("the first word of echo goes alone, and short ones behind it go together", async () => {
  const text = `a ${"é ".repeat(40_000)}`;
  await using runner = openAppRunner();
  const pieces = await piecesOf(runner.stream(runOf(echo, { text })));
  expect(pieces[0]).toBe("a ");
  expect(pieces.join("")).toBe(text);
  const longest = Math.max(...pieces.map(({ length }) => length));
  expect(longest).toBeGreaterThanOrEqual(runBounds.echoPieceCharacters);
  expect(longest).toBeLessThanOrEqual(runBounds.echoPieceCharacters + 1);
});

test.each(streaming)("short texts of %s that are there together go together", async (_, kind) => {
  const words = 4_000;
  await using server = await kind.serve((talk) => {
    for (let said = 0; said < words; said += 1) talk.say("é ");
    talk.end();
  });
  await using runner = openAppRunner();
  const pieces = await piecesOf(runner.stream(runOf(appOn(server.backend))));
  expect(pieces.join("")).toBe("é ".repeat(words));
  expect(pieces.length).toBeLessThan(words / 10);
});

describe("everything else gets its turn between two pieces", () => {
  async function turnsOf(stream: AsyncIterable<string>): Promise<number> {
    const turns = countTurns();
    let pieces = 0;
    for await (const piece of stream) {
      if (piece !== "") pieces += 1;
      if (pieces === 50) return turns();
    }
    throw new Error("the stream is too short");
  }

  test("of echo", async () => {
    await using runner = openAppRunner();
    const text = "a ".repeat(50 * runBounds.echoPieceCharacters);
    expect(await turnsOf(runner.stream(runOf(echo, { text })))).toBeGreaterThanOrEqual(49);
  });

  test.each(streaming)("of %s", async (_, kind) => {
    await using server = await kind.serve(async (talk) => {
      let isGone = false;
      talk.gone.then(() => {
        isGone = true;
      });
      while (!isGone) if (!talk.say("é ")) await Promise.race([talk.drained(), talk.gone]);
    });
    await using runner = openAppRunner();
    expect(await turnsOf(runner.stream(runOf(appOn(server.backend))))).toBeGreaterThanOrEqual(49);
  });
});
