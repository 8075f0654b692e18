import { expect, test } from "vitest";
import { untilEnded } from "#src/http/handler.ts";
import { fail } from "#src/refusal/refusal.ts";

async function* countThenWait(upTo: number) {
  for (let n = 1; n <= upTo; n++) yield n;
  await new Promise(() => {});
}

test("a stream is passed on until the signal is aborted, also while it waits", async () => {
  const end = new AbortController();
  const seen: number[] = [];
  const reading = (async () => {
    for await (const n of untilEnded(countThenWait(2), end.signal)) {
      seen.push(n);
      if (n === 2) setImmediate(() => end.abort(fail("UNAVAILABLE")));
    }
  })();
  await expect(reading).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  expect(seen).toEqual([1, 2]);
});

test("a stream that ends by itself ends without an error", async () => {
  async function* two() {
    yield 1;
    yield 2;
  }
  const seen: number[] = [];
  for await (const n of untilEnded(two(), new AbortController().signal)) seen.push(n);
  expect(seen).toEqual([1, 2]);
});

test("a stream that is opened after the abort is ended at once", async () => {
  const messages = untilEnded(countThenWait(0), AbortSignal.abort(fail("UNAVAILABLE")));
  await expect(messages.next()).rejects.toMatchObject({ reason: "UNAVAILABLE" });
});
