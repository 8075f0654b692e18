import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { RateLimitSchema } from "#gen/keyrun/v1/rate_limit_pb.ts";
import { leftInWords, nextSlotInWords, usageTone } from "../../../web/usage/usage-words.ts";

test("the tone changes at 80 % and at 100 % of the limit", () => {
  expect([60, 13, 12, 1, 0].map((remaining) => usageTone(rateLimit({ remaining })))).toEqual([
    "calm",
    "calm",
    "near",
    "near",
    "reached",
  ]);
});

test("the words name what is left, and in how many whole seconds more is free, rounded up", () => {
  expect(leftInWords(rateLimit({ remaining: 37 }))).toBe("37 of 60 left");
  expect(nextSlotInWords(rateLimit({ remaining: 37, resetMs: 11_001 }), 0)).toBe(
    "next request frees up in 12 s",
  );
});

test("with no slot taken there is no next slot to wait for", () => {
  expect(nextSlotInWords(rateLimit({ remaining: 60, resetMs: 0 }), 0)).toBe("");
});

test("clocks that differ make the wait neither longer than the window nor negative", () => {
  expect(nextSlotInWords(rateLimit({ remaining: 1, resetMs: 500_000 }), 0)).toBe(
    "next request frees up in 60 s",
  );
  expect(nextSlotInWords(rateLimit({ remaining: 1, resetMs: 0 }), 500_000)).toBe("next request frees up now");
});

test("at the limit the words say until when requests are refused", () => {
  expect(nextSlotInWords(rateLimit({ remaining: 0, resetMs: 0 }), 0)).toMatch(
    /^Limit reached; requests get 429 until \d\d:\d\d:\d\d$/,
  );
});

function rateLimit({ remaining, resetMs = 12_000 }: { remaining: number; resetMs?: number }) {
  return create(RateLimitSchema, { limit: 60, remaining, resetTime: timestampFromMs(resetMs) });
}
