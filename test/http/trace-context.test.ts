import { describe, expect, test } from "vitest";
import { readTraceContext, traceContextBounds, traceHeaders } from "#src/http/trace-context.ts";

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const parent = `00-${traceId}-00f067aa0ba902b7-01`;

function read(traceparent: string | undefined, tracestate?: string) {
  return readTraceContext({ header: (name) => (name === "traceparent" ? traceparent : tracestate) });
}

test("a valid context is passed on as it came", () => {
  const context = read(parent, "congo=t61rcWkgMzE,rojo@vendor=00f067aa0ba902b7");
  expect(traceHeaders(context)).toEqual([
    ...["traceparent", parent],
    ...["tracestate", "congo=t61rcWkgMzE,rojo@vendor=00f067aa0ba902b7"],
  ]);
  expect(traceHeaders(read(parent))).toEqual(["traceparent", parent]);
  expect(traceHeaders(read(undefined, "a=b"))).toEqual([]);
});

test("a later version is passed on as the first, without what the first does not know", () => {
  const later = `cc-${traceId}-00f067aa0ba902b7-01-what-is-to-come`;
  expect(read(later)).toEqual({ traceparent: parent });
});

describe("a traceparent that W3C does not allow is dropped", () => {
  test.each([
    ["empty", ""],
    ["no fields", "00"],
    ["version ff", `ff-${traceId}-00f067aa0ba902b7-01`],
    ["capitals", parent.toUpperCase()],
    ["no trace", `00-${"0".repeat(32)}-00f067aa0ba902b7-01`],
    ["no span", `00-${traceId}-${"0".repeat(16)}-01`],
    ["short", parent.slice(0, -1)],
    ["more fields in the first version", `${parent}-more`],
    ["sent twice", `${parent}, ${parent}`],
    ["a line feed", `${parent}\n`],
    ["too long", `cc${parent.slice(2)}-${"x".repeat(traceContextBounds.traceparentCharactersMax)}`],
  ])("%s", (_, sent) => {
    expect(read(sent, "a=b")).toBeUndefined();
  });
});

describe("of a context whose tracestate is not allowed, only the traceparent is passed on", () => {
  test.each([
    ["no value", "congo"],
    ["an empty value", "congo="],
    ["capitals in a name", "Congo=1"],
    ["the same name twice", "a=1,a=2"],
    ["a control character", "a=1\u0001"],
    ["two equal signs", "a=1=2"],
    ["too many members", Array.from({ length: 33 }, (_, n) => `a${n}=1`).join()],
    ["too long", `a=${"x".repeat(200)},b=${"x".repeat(200)},c=${"x".repeat(200)}`],
    ["what may be the secret of a key", `a=${"Zx".repeat(25)}`],
    ["nothing but commas", ",,"],
  ])("%s", (_, sent) => {
    expect(read(parent, sent)).toEqual({ traceparent: parent });
  });
});

test("a tracestate that was sent in several headers is one list", () => {
  expect(read(parent, "a=1, b=2,, c=3")?.tracestate).toBe("a=1,b=2,c=3");
});
