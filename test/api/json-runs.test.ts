import type { JsonObject } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { grpcJsCaller } from "../harness/grpc-js-caller.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { restStreamCallers } from "../harness/rest-stream-callers.ts";
import { connectStreamCallers, streamedRuns } from "../harness/stream-callers.ts";
import { everyCaller } from "./every-caller.ts";
import accepted from "./json-test-suite/accepted.json" with { type: "json" };

const keyrun = closedAtEnd(await startKeyrun({ settings: { KEYRUN_PLAN_LIMITS: "free=10000,pro=10000" } }));
const { value } = await keyrun.newKey(await keyrun.newTeam());
const authorization = `Bearer ${value}`;

const streams = { ...connectStreamCallers, ...restStreamCallers };
const callers = {
  ...everyCaller,
  ...Object.fromEntries(
    Object.entries(streams).map(([name, make]) => [`a stream by ${name}`, streamedRuns(make)]),
  ),
};

/** Names that mean something to JavaScript, or to what reads paths. */
const names: JsonObject = JSON.parse(
  '{"__proto__":{"a":1},"constructor":[null,{"__proto__":2}],"":"","a.b":{"a/b":-1.5},"toString":true}',
);

describe.each(Object.entries(callers))("%s", (name, make) => {
  const caller = closedAtEnd(make(keyrun.publicUrl));
  const answerTo = async (order: { text?: string; input?: JsonObject }) => {
    const outcome = await caller.run({ appId: "echo", authorization, ...order });
    if (outcome.kind !== "ok") throw new Error(outcome.message);
    return outcome.answer;
  };
  const noText = name.startsWith("a stream") ? "" : undefined;

  test("input comes back as output, with every name as it went", async () => {
    const { text, output } = await answerTo({ input: names });
    expect(text).toBe(noText);
    expect(output).toEqual(names);
    expect(Object.keys(output as JsonObject).sort()).toEqual(Object.keys(names).sort());
    expect(await answerTo({ text: "a", input: {} })).toMatchObject({ text: "a", output: {} });
    expect((await answerTo({ text: "a" })).output).toBeUndefined();
  });

  test("without text and input it is refused", async () => {
    const outcome = await caller.run({ appId: "echo", authorization });
    expect(outcome).toMatchObject({ kind: "refused", code: Code.InvalidArgument });
  });

  test.each([
    ["a lone surrogate in a value", { a: ["\ud800"] }],
    ["a lone surrogate in a name", { a: { "\udc00": 1 } }],
    ["33 levels", { a: nested(32) }],
    ["20,001 values", { a: new Array(19_999).fill(0) }],
  ])("%s in input is refused, by the name of the field", async (what, input) => {
    // Clients of Protobuf write a replacement character in place of a lone surrogate, or fail.
    if (what.startsWith("a lone") && !name.includes("REST")) return;
    const outcome = await caller.run({ appId: "echo", authorization, input });
    expect(outcome).toMatchObject({ kind: "refused", code: Code.InvalidArgument });
    expect(outcome.kind === "refused" && outcome.message).toMatch(/^input /);
  });
});

/** Lists in each other. */
function nested(levels: number): JsonObject[string] {
  return levels === 0 ? 0 : [nested(levels - 1)];
}

/** The status and the body of a request over REST, and over Connect's JSON. */
async function sendText(path: string, body: string) {
  const headers = { authorization, "content-type": "application/json", "connect-protocol-version": "1" };
  const answer = await fetch(`${keyrun.publicUrl}${path}`, { method: "POST", headers, body });
  return { status: answer.status, body: await answer.text() };
}

const overRest = (body: string) => sendText("/api/apps/echo/run", `{${body}}`);
const overConnect = (body: string) => sendText("/keyrun.v1.RunService/RunApp", `{"appId":"echo",${body}}`);

const notExact = "input has a number that a double can't hold. Send it as a string.";
const notUnicode = "input must be valid Unicode: it has half of a surrogate pair.";

describe.each([
  ["REST", overRest],
  ["Connect", overConnect],
])("the JSON of a request over %s", (_, send) => {
  test.each([
    ['"input":[1]', "input must be an object."],
    ['"input":"a"', "input must be an object."],
    ['"input":1', "input must be an object."],
    ['"input":{"a":9007199254740993}', notExact],
    ['"input":{"a":[-12345678901234567890]}', notExact],
    ['"input":{"a":1e999}', notExact],
    [`"input":{"a":${"9".repeat(400)}}`, notExact],
    ['"input":{"a":"\\ud800"}', notUnicode],
    ['"input":{"\\udc00":1}', notUnicode],
    [`"input":{"a":${"[".repeat(32)}${"]".repeat(32)}}`, "input is more than 32 deep. Nest less."],
    [`"input":{"a":${"[".repeat(500)}${"]".repeat(500)}}`, /^input is nested deeper than 100 levels/],
    [`"input":{"a":[${"0,".repeat(20_000)}0]}`, "input has more than 20000 values. Send fewer."],
    ['"input":null', /^text or input is required/],
  ])("number %# is refused, with the name of the field", async (body, message) => {
    const answer = await send(body);
    expect(answer.status).toBe(400);
    const told = JSON.parse(answer.body);
    const said: string = told.message ?? told.error.message;
    expect(said).toMatch(message);
    expect(answer.body).toContain(String(message).includes("text or") ? '"text"' : '"input"');
  });

  test.each([
    ['{"a":[9007199254740992,1e300,1E22,70234778529767930]}'],
    ['{"a":0.1234567890123456789,"b":1e-999,"c":"9007199254740993"}'],
    [`{"a":${"[".repeat(31)}${"]".repeat(31)}}`],
  ])("number %# comes back", async (input) => {
    const { status, body } = await send(`"input":${input},"text":null`);
    expect(status).toBe(200);
    expect(JSON.parse(body)).toMatchObject({ output: JSON.parse(input) });
  });

  test.each(Object.entries(accepted))("the document %s of JSONTestSuite comes back", async (_, json) => {
    const document = JSON.parse(json);
    const isObject = json.trim().startsWith("{");
    const { status, body } = await send(`"input":${isObject ? json : `{"v":${json}}`}`);
    expect({ status, body }).toMatchObject({ status: 200 });
    // Minus zero may come back as zero.
    const zeros = (text: string) => JSON.parse(text, (__, each) => (each === 0 ? 0 : each));
    expect(zeros(body).output).toEqual(zeros(isObject ? json : JSON.stringify({ v: document })));
  });
});

test.each([Number.NaN, Number.POSITIVE_INFINITY])(
  "over gRPC %s is no JSON, and any other number is",
  async (number) => {
    const caller = grpcJsCaller(keyrun.publicUrl);
    const order = { appId: "echo", authorization };
    const refused = await caller.run({ ...order, input: { a: [number] } });
    expect(refused).toMatchObject({ kind: "refused", code: Code.InvalidArgument, message: notExact });
    const input = { a: [2 ** 60 + 2 ** 10, -Number.MAX_VALUE, Number.MIN_VALUE] };
    expect(await caller.run({ ...order, input })).toMatchObject({ kind: "ok", answer: { output: input } });
    caller.close();
  },
);
