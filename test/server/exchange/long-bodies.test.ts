import { expect, test } from "vitest";
import { countTurns } from "../../harness/counted-turns.ts";
import { serveForTest } from "../../harness/served-handler.ts";

test("long bodies that end together are handled in a turn of the event loop each", async () => {
  const turns = countTurns();
  const handledAt: number[] = [];
  const { url } = await serveForTest(async (request) => {
    await request.readBody(1_048_576);
    handledAt.push(turns());
    return { status: 200, headers: [], body: "" };
  });
  const body = "a".repeat(100_000);
  await Promise.all(Array.from({ length: 32 }, () => fetch(url, { method: "POST", body })));
  expect(handledAt).toHaveLength(32);
  expect(new Set(handledAt).size).toBe(32);
});
