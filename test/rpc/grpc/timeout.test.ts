import { expect, test } from "vitest";
import { readTimeoutMs } from "#src/rpc/grpc/timeout.ts";

test.each([
  ["1H", 3_600_000],
  ["2M", 120_000],
  ["30S", 30_000],
  ["500m", 500],
  ["1500u", 1.5],
  ["99999999n", 99.999999],
  ["0S", 0],
])("%s is %d ms", (value, ms) => {
  expect(readTimeoutMs(value)).toBeCloseTo(ms, 9);
});

test("no header is no deadline", () => {
  expect(readTimeoutMs(undefined)).toBeUndefined();
});

test.each(["", "1", "S", "-1S", "1.5S", "123456789S", "1s", "1 S", " 1S", "1S, 2S", "toString"])(
  "%j is refused, in words that say what to send",
  (value) => {
    expect(() => readTimeoutMs(value)).toThrow(
      expect.objectContaining({
        reason: "INVALID_ARGUMENT",
        message: expect.stringMatching(/as 30S or 500m/),
      }),
    );
  },
);
