import { expect, test } from "vitest";
import { readPreferences } from "#src/rest/preferences.ts";

const none = { respondAsync: false, waitSeconds: undefined };
const isAsync = { ...none, respondAsync: true };

test.each([
  ["respond-async", isAsync],
  ["Respond-ASYNC, WAIT=10", { respondAsync: true, waitSeconds: 10 }],
  [" respond-async ,wait = 10 ", { respondAsync: true, waitSeconds: 10 }],
  ['respond-async, wait="10"', { respondAsync: true, waitSeconds: 10 }],
  ['respond-async, wait="1\\0"', { respondAsync: true, waitSeconds: 10 }],
  ["respond-async; until=done, wait=3; foo", { respondAsync: true, waitSeconds: 3 }],
  ["respond-async=, wait=0", { respondAsync: true, waitSeconds: 0 }],
  ['respond-async=""', isAsync],
  ["wait=10", { ...none, waitSeconds: 10 }],
])("what a caller prefers is read as RFC 7240 says: %s", (value, preferences) => {
  expect(readPreferences(value)).toEqual(preferences);
});

test.each([
  ["wait=1, wait=2, respond-async", { respondAsync: true, waitSeconds: 1 }],
  ["wait=soon, wait=2, respond-async", isAsync],
  ["respond-async=no, respond-async", none],
])("the first of a name counts, also of headers that were joined: %s", (value, preferences) => {
  expect(readPreferences(value)).toEqual(preferences);
});

test.each([
  ["", none],
  [",,,", none],
  ["return=minimal, handling=lenient", none],
  ['foo="respond-async, wait=3"', none],
  ['foo="a\\", wait=3", respond-async', isAsync],
  ["respond-async, wait=-1", isAsync],
  ["respond-async, wait=1.5", isAsync],
  ["respond-async, wait=9999999999", isAsync],
  ["respond async, wait", none],
  ['"respond-async"', none],
  ["respond-async\u0000", none],
])("what is unknown or can't be read is ignored: %j", (value, preferences) => {
  expect(readPreferences(value)).toEqual(preferences);
});

test("a long value costs no more than its length", () => {
  const value = `${'"\\'.repeat(4_000)}, ${"respond-async;".repeat(1_000)}, wait=1${" ".repeat(8_000)}x`;
  expect(readPreferences(value).waitSeconds).toBeUndefined();
});
