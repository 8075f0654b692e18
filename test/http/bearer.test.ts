import { expect, test } from "vitest";
import { readBearer } from "#src/http/request-head.ts";

test.each([
  ["Bearer abc", "abc"],
  ["bearer abc", "abc"],
  ["BEARER   abc", "abc"],
  ["  Bearer abc ", "abc"],
])("%j holds the token", (header, token) => {
  expect(readBearer([header])).toEqual({ kind: "bearer", token });
});

test.each([[[]], [[""]], [["   "]]])("%j is a missing credential", (headers) => {
  expect(readBearer(headers)).toEqual({ kind: "missing" });
});

test.each(["Bearer", "Bearer ", "Bearer a b", "Basic abc", "abc", "Bearerabc", `Bearer ${"x".repeat(9000)}`])(
  "%.20j is malformed",
  (header) => {
    expect(readBearer([header])).toEqual({ kind: "malformed" });
  },
);

test("two headers are malformed, even when they are equal", () => {
  expect(readBearer(["Bearer abc", "Bearer abc"])).toEqual({ kind: "malformed" });
});
