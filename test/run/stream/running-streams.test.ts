import { expect, test } from "vitest";
import { runBounds } from "#src/run/run-bounds.ts";
import { appOn, openAppRunner, runOf } from "../../harness/app-backends.ts";
import { piecesOf } from "../../harness/streamed-apps.ts";

const echo = appOn({ kind: "echo" });

async function echoed(text: string): Promise<string[]> {
  await using runner = openAppRunner();
  return await piecesOf(await runner.stream(runOf(echo, { text })));
}

test("the first text of an app goes alone, and short ones that are there behind it go together", async () => {
  const words = 4_000;
  const text = "a ".repeat(words);
  const pieces = await echoed(text);
  expect(pieces[0]).toBe("a ");
  expect(pieces.join("")).toBe(text);
  expect(pieces.length).toBeLessThan(words / 10);
});

test("no more texts are joined once there are enough bytes", async () => {
  const word = `${"é".repeat(2_000)} `;
  const text = word.repeat(100);
  const pieces = await echoed(text);
  expect(pieces.join("")).toBe(text);
  const longest = Math.max(...pieces.map((piece) => Buffer.byteLength(piece)));
  expect(longest).toBeGreaterThan(Buffer.byteLength(word));
  expect(longest).toBeLessThan(runBounds.streamJoinedBytes + Buffer.byteLength(word));
});
