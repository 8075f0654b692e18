import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { json } from "node:stream/consumers";
import { expect, test } from "vitest";
import { readPreferences } from "#src/rest/rest-methods.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";

const keyrun = closedAtEnd(await startKeyrun());

/** Begins a run whose caller sends its body only when it gets `100 Continue`. */
async function beginRun(target: string, headers: Readonly<Record<string, string>> = {}) {
  const { value } = await keyrun.newKey("demo");
  const call = request(`${keyrun.publicUrl}${target}`, {
    method: "POST",
    headers: {
      Authorization: `Bearer ${value}`,
      "Content-Type": "application/json",
      Expect: "100-continue",
      ...headers,
    },
  });
  let isAsked = false;
  call.on("continue", () => {
    isAsked = true;
  });
  call.flushHeaders();
  const answered = once(call, "response").then(async ([answer]: IncomingMessage[]) => ({
    status: answer?.statusCode,
    code: ((await json(answer!)) as { error?: { code?: string } }).error?.code,
    isAsked,
  }));
  return { call, answered };
}

const entries = [
  ["a run", "run", {}],
  ["a run in the background", "run", { Prefer: "respond-async" }],
  ["a streamed run", "stream", {}],
] as const;

test.each(entries)(
  "%s of an app that does not exist is refused before its body",
  async (_, verb, headers) => {
    const { answered } = await beginRun(`/api/apps/no-such-app/${verb}`, headers);
    expect(await answered).toEqual({ status: 404, code: "app_not_found", isAsked: false });
  },
);

test.each(entries)(
  "%s of an app that is deleted before its body came is refused",
  async (_, verb, headers) => {
    const backend = { kind: { case: "echo", value: {} } } as const;
    await keyrun.apps.createApp({ app: { id: "short-lived", backend } });
    const { call, answered } = await beginRun(`/api/apps/short-lived/${verb}`, headers);
    await once(call, "continue");
    await keyrun.apps.deleteApp({ appId: "short-lived" });
    call.end('{"text":"hello"}');
    expect(await answered).toEqual({ status: 404, code: "app_not_found", isAsked: true });
  },
);

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
