import { afterAll, describe, expect, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { bodyOf, serveHttp } from "../harness/app-backends.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";

const sent: unknown[] = [];
const held: (() => void)[] = [];
const server = await serveHttp(async (request, response) => {
  const body = await bodyOf(request);
  sent.push(JSON.parse(body));
  if (body.includes('"hold"')) held.push(() => response.end('{"text":"done"}'));
  else response.end('{"text":"done"}');
});
afterAll(() => server[Symbol.asyncDispose]());

const keyrun = closedAtEnd(await startKeyrun({ settings: { KEYRUN_APP_RUNS_MAX: "1" } }));
const key = await keyrun.newKey(await keyrun.newTeam(Plan.ENTERPRISE));
const { url } = server.backend;
const createApp = (id: string, request: string) =>
  keyrun.apps.createApp({ app: { id, backend: { kind: { case: "http", value: { url, request } } } } });
await createApp("both", '{"q":"$text","id":"$input/customer/id","all":"$input","$input/x":"$$text"}');
await createApp("part", '{"id":"$input/a~1b/0","run":"$stream"}');
await createApp("none", '{"by":"$appId"}');

/** How a run is asked for: each must refuse alike. */
const ways = {
  run: {},
  "run with an Idempotency-Key": { "idempotency-key": "one" },
  "run in the background": { prefer: "respond-async, wait=10" },
  "run in the background with an Idempotency-Key": { prefer: "respond-async", "idempotency-key": "two" },
  stream: {},
} as const;
type Way = keyof typeof ways;

async function ask(way: Way, appId: string, body: object) {
  const answer = await fetch(`${keyrun.publicUrl}/api/apps/${appId}/${way.startsWith("run") ? "run" : way}`, {
    method: "POST",
    headers: { authorization: `Bearer ${key.value}`, "content-type": "application/json", ...ways[way] },
    body: JSON.stringify(body),
  });
  return { status: answer.status, text: await answer.text() };
}

const left = [
  ["both", { input: { customer: { id: 7 } } }, "text", "text is required, a string: the app is sent it."],
  ["both", { text: "" }, "input", "input is required, a JSON object: the app is sent it."],
  ["both", { text: "", input: {} }, "input", "input must have /customer/id: the app is sent it."],
  [
    "both",
    { text: "", input: { customer: [] } },
    "input",
    "input must have /customer/id: the app is sent it.",
  ],
  ["part", { input: { "a/b": {} } }, "input", "input must have /a~1b/0: the app is sent it."],
  ["part", { text: "hi" }, "input", "input is required, a JSON object: the app is sent it."],
] as const;

describe.each(Object.keys(ways) as Way[])("as a %s", (way) => {
  test("what a template needs and the caller left out is named, before a slot is taken", async () => {
    const holding = ["both", "part"].map((appId) =>
      ask("run", appId, { text: "hold", input: { customer: { id: "hold" }, "a/b": ["hold"] } }),
    );
    await expect.poll(() => held.length).toBe(2);
    sent.length = 0;
    for (const [appId, body, param, message] of left) {
      const { status, text } = await ask(way, appId, body);
      expect(JSON.parse(text), JSON.stringify(body)).toMatchObject({
        error: { code: "invalid_argument", param, message },
      });
      expect(status).toBe(400);
    }
    expect(sent).toEqual([]);
    for (const end of held.splice(0)) end();
    for (const { status } of await Promise.all(holding)) expect(status).toBe(200);
  });

  test("what it needs is sent where it stands, as it was given", async () => {
    sent.length = 0;
    const input = { customer: { id: [1.5, null, "$text"] }, b: "" };
    expect((await ask(way, "both", { text: "hi", input })).status).toBeLessThan(300);
    await expect
      .poll(() => sent)
      .toEqual([{ q: "hi", id: input.customer.id, all: input, "$input/x": "$text" }]);
  });
});

test("a template that needs no input is run with any", async () => {
  sent.length = 0;
  for (const body of [{ text: "" }, { input: {} }]) expect((await ask("run", "none", body)).status).toBe(200);
  expect(sent).toEqual([{ by: "none" }, { by: "none" }]);
});
