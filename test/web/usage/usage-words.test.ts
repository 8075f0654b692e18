import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { RateLimitSchema } from "#gen/keyrun/v1/rate_limit_pb.ts";
import {
  limitInWords,
  limitReachedInWords,
  nextRequestInWords,
  usageTone,
  usedInWords,
} from "../../../web/usage/usage-words.ts";
import { sent } from "../sent-message.ts";

test("the tone changes at 80 % and at 100 % of the limit", () => {
  expect([60, 13, 12, 1, 0].map((remaining) => usageTone(rateLimit({ remaining })))).toEqual([
    "calm",
    "calm",
    "near",
    "near",
    "reached",
  ]);
});

test("the words name what is used, and how many whole seconds it takes until a request works, rounded up", () => {
  expect(usedInWords(rateLimit({ remaining: 37 }))).toBe("23 of 60 used");
  expect(nextRequestInWords(rateLimit({ remaining: 0, resetMs: 11_001 }), 0)).toBe("next request in 12 s");
});

test("large numbers are written out in the way of the browser's language", () => {
  const used = new Intl.NumberFormat().format(1_234);
  const limit = new Intl.NumberFormat().format(3_000);
  expect(usedInWords(rateLimit({ limit: 3_000, remaining: 1_766 }))).toBe(`${used} of ${limit} used`);
  expect(limitInWords(3_000)).toBe(`${limit} requests per minute`);
});

test("below the limit there is no request to wait for", () => {
  for (const remaining of [60, 37, 1]) expect(nextRequestInWords(rateLimit({ remaining }), 0)).toBe("");
});

test("clocks that differ make the wait neither longer than the window nor negative", () => {
  expect(nextRequestInWords(rateLimit({ remaining: 0, resetMs: 500_000 }), 0)).toBe("next request in 60 s");
  expect(nextRequestInWords(rateLimit({ remaining: 0, resetMs: 0 }), 500_000)).toBe("next request now");
});

test("more left than the limit, after a change of the plan, counts as nothing used", () => {
  expect(usedInWords(rateLimit({ limit: 60, remaining: 590 }))).toBe("0 of 60 used");
});

test("the announcement of a reached limit says until when requests are refused", () => {
  expect(limitReachedInWords(0)).toMatch(/^Limit reached; requests get 429 until \d?\d:\d\d:\d\d/);
});

interface Numbers {
  readonly limit?: number;
  readonly remaining: number;
  readonly resetMs?: number;
}

function rateLimit({ limit = 60, remaining, resetMs = 12_000 }: Numbers) {
  return sent(RateLimitSchema, { limit, remaining, resetTime: timestampFromMs(resetMs) });
}
