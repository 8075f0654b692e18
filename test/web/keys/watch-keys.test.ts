import type { MessageInitShape } from "@bufbuild/protobuf";
import fc from "fast-check";
import { afterEach, expect, test, vi } from "vitest";
import { WatchKeysResponseSchema } from "#gen/keyrun/v1/key_service_pb.ts";
import type { WatchKeysResponse } from "../../../web/api/messages.ts";
import { RpcError } from "../../../web/api/rpc-error.ts";
import { bounds } from "../../../web/bounds.ts";
import { retryDelayMs, type Watch, watchKeys } from "../../../web/keys/live/watch-keys.ts";
import { sent } from "../sent-message.ts";

type Event = NonNullable<MessageInitShape<typeof WatchKeysResponseSchema>["event"]>;
type Stream = (signal: AbortSignal) => AsyncIterable<WatchKeysResponse>;

const opened: Event = { case: "opened", value: {} };
const heartbeat: Event = { case: "heartbeat", value: {} };

afterEach(() => {
  vi.useRealTimers();
});

test("changes are reported as they come, and the watch ends with its signal", async () => {
  const key = { id: "k1" };
  const { calls, end } = await watching([
    stream(
      opened,
      { case: "created", value: key },
      heartbeat,
      { case: "revoked", value: key },
      { case: "changed", value: key },
      { case: "used", value: key },
    ),
  ]);
  expect(calls).toEqual(["opened", "created k1", "changed k1", "changed k1", "used k1", "paused"]);
  expect(end).toBe("aborted");
});

test("a stream that fails or ends is opened again, after a longer wait each time", async () => {
  const { calls, waits } = await watching([
    failing("unavailable"),
    stream(),
    failing("unknown"),
    stream(opened),
  ]);
  expect(calls).toEqual(["paused", "paused", "paused", "opened", "paused"]);
  expect(waits.slice(0, 3)).toEqual([0, 1, 2].map((failures) => retryDelayMs(failures, 0)));
});

test("a stream that opens and ends at once does not reset the waits; a stream with a later event does", async () => {
  const { waits } = await watching([stream(), stream(opened), stream(opened, heartbeat), stream()]);
  expect(waits).toEqual([0, 1, 0, 1].map((failures) => retryDelayMs(failures, 0)));
});

test.each(["unauthenticated", "permission_denied", "not_found"])(
  "a refusal that no retry can change (%s) ends the watch without a wait",
  async (code) => {
    const { end, waits } = await watching([stream(opened), failing(code), stream(opened)]);
    expect(end).toBe("refused");
    expect(waits).toHaveLength(1);
  },
);

test.each([
  ["from the start", []],
  ["after it was opened", [opened]],
])("a stream that is silent %s counts as lost", async (_, events) => {
  vi.useFakeTimers();
  const silent: Stream = async function* (signal) {
    for (const event of events) yield sent(WatchKeysResponseSchema, { event });
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
  };
  const run = watching([silent]);
  await vi.advanceTimersByTimeAsync(bounds.watchSilenceMsMax);
  const { calls } = await run;
  expect(calls).toEqual([...events.map((event) => event.case), "paused"]);
});

test("a wait is between half of its step and all of it, and never above the bound", () => {
  fc.assert(
    fc.property(
      fc.nat(2_000),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      (failures, random) => {
        const ms = retryDelayMs(failures, random);
        expect(ms).toBeLessThanOrEqual(bounds.watchRetryMsMax);
        expect(ms).toBeGreaterThan(bounds.watchRetryMsMin / 2 - 1);
      },
    ),
  );
});

/** Watches a server that answers each call with the next stream, until none is left. */
async function watching(streams: Stream[]) {
  const left = [...streams];
  const over = new AbortController();
  const calls: string[] = [];
  const waits: number[] = [];
  const watch: Watch = {
    open: (signal) => (left.shift() ?? stream())(signal),
    async wait(ms) {
      waits.push(ms);
      if (left.length === 0) over.abort();
    },
    random: () => 0,
    onOpened: () => calls.push("opened"),
    onCreated: (key) => calls.push(`created ${key.id}`),
    onChanged: (key) => calls.push(`changed ${key.id}`),
    onUsed: (key) => calls.push(`used ${key.id}`),
    onPaused: () => calls.push("paused"),
  };
  return { end: await watchKeys(watch, over.signal), calls, waits };
}

function stream(...events: Event[]): Stream {
  return async function* () {
    for (const event of events) yield sent(WatchKeysResponseSchema, { event });
  };
}

function failing(code: string): Stream {
  // biome-ignore lint/correctness/useYield: it fails before its first event.
  return async function* () {
    throw new RpcError({ code });
  };
}
