import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { expect, test } from "vitest";
import { UsagePointSchema } from "#gen/keyrun/v1/key_service_pb.ts";
import { usageBounds } from "#src/usage/usage-store.ts";
import { bounds } from "../../../web/bounds.ts";
import {
  numbersInWords,
  requestsOf,
  scaleMax,
  usageNumbers,
  usageSum,
} from "../../../web/usage/history/usage-numbers.ts";
import { spanStartMs, usageSpans } from "../../../web/usage/history/usage-span.ts";
import { sent } from "../sent-message.ts";

const point = (accepted: number, limited: number, failed: number, appMs = 0) =>
  usageNumbers(
    sent(UsagePointSchema, {
      startTime: timestampFromMs(0),
      acceptedCount: BigInt(accepted),
      limitedCount: BigInt(limited),
      failedCount: BigInt(failed),
      appDuration: durationFromMs(appMs),
    }),
  );

test("the parts of a bar are apart: a failed request is no answered one", () => {
  expect(point(10, 3, 2, 55)).toEqual({ startMs: 0, answered: 8, failed: 2, limited: 3, meanMs: 5.5 });
  expect(point(0, 3, 0).meanMs).toBe(null);
});

test("the words leave out what did not happen", () => {
  expect(numbersInWords(point(0, 0, 0))).toBe("No requests");
  expect(numbersInWords(point(1, 0, 0))).toBe("1 request");
  expect(numbersInWords(usageSum([point(1_200, 3, 1), point(1, 0, 0)]))).toBe(
    "1,204 requests, 3 refused by the limit, 1 failed",
  );
});

test("the scale holds every bar, is even, and is never much too high", () => {
  fc.assert(
    fc.property(fc.nat(1_000_000), fc.nat(1_000_000), (accepted, limited) => {
      const numbers = point(accepted, limited, 0);
      const max = scaleMax([numbers]);
      expect(max).toBeGreaterThanOrEqual(requestsOf(numbers));
      expect(max % 2).toBe(0);
      expect(max).toBeLessThanOrEqual(Math.max(2, requestsOf(numbers) * 2.5));
    }),
  );
});

test("a span has its number of steps, and the last is the one of now", () => {
  for (const span of ["day", "month"] as const) {
    const { stepMs, steps } = usageSpans[span];
    for (const nowMs of [1_700_000_000_000, 1_700_006_400_000 - 1, 1_700_006_400_000]) {
      const lastMs = spanStartMs(span, nowMs) + (steps - 1) * stepMs;
      expect(lastMs).toBeLessThanOrEqual(nowMs);
      expect(lastMs + stepMs).toBeGreaterThan(nowMs);
    }
  }
});

test("the screen asks for the usage of as many keys at once as Keyrun tells", () => {
  expect(bounds.usageKeysMax).toBe(usageBounds.listedKeysMax);
  expect(bounds.usageKeysMax * usageSpans.month.steps).toBeLessThanOrEqual(usageBounds.listedNumbersMax);
  expect(bounds.keysPageSize).toBeLessThanOrEqual(bounds.usageKeysMax);
});
