import { expect, test } from "vitest";
import { readTimeoutMs } from "#src/rpc/grpc/frame.ts";

const msMax = 31_000;

test.each([
  ["30S", 30_000],
  ["500m", 500],
  ["1500u", 1.5],
  ["99999999n", 99.999999],
  ["1H", msMax],
  ["2M", msMax],
  ["99999999S", msMax],
])("%s is %d ms", (value, ms) => {
  expect(readTimeoutMs(value, msMax)).toBeCloseTo(ms, 9);
});

test("without a grpc-timeout a call has the longest time of its method", () => {
  expect(readTimeoutMs(undefined, msMax)).toBe(msMax);
});

test.each(["0S", "0n"])("%s is refused with DEADLINE_EXCEEDED", (value) => {
  expect(() => readTimeoutMs(value, msMax)).toThrow(expect.objectContaining({ reason: "DEADLINE_EXCEEDED" }));
});

test.each(["", "1", "S", "-1S", "1.5S", "123456789S", "1s", "1 S", " 1S", "1S, 2S", "toString"])(
  "%j is refused, and the message says what to send",
  (value) => {
    expect(() => readTimeoutMs(value, msMax)).toThrow(
      expect.objectContaining({
        reason: "INVALID_ARGUMENT",
        message: expect.stringMatching(/as 30S or 500m/),
      }),
    );
  },
);
