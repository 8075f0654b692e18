import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { beforeEach, expect, test } from "vitest";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { type Circumstances, runCommand } from "../harness/command-line.ts";
import { startKeyrun } from "../harness/keyrun.ts";

/** One answer of the REST API. */
interface Answer {
  readonly status?: number;
  readonly body: object;
}

/** Answers in place of Keyrun, by method and path, and what it was asked. */
let answers: Record<string, Answer | ((query: URLSearchParams) => Answer)>;
let asked: { call: string; prefer: string | undefined; authorization: string | undefined; body: string }[];

const server = closedAtEnd(
  createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request.setEncoding("utf8")) body += chunk;
    const { method, url = "", headers } = request;
    const { prefer, authorization } = headers;
    asked.push({ call: `${method} ${url}`, prefer: prefer?.toString(), authorization, body });
    const { pathname, searchParams } = new URL(url, "http://localhost");
    const found = answers[`${method} ${pathname}`] ?? { status: 404, body: refusal("There is no such run.") };
    const answer = typeof found === "function" ? found(searchParams) : found;
    response.writeHead(answer.status ?? 200, { "content-type": "application/json" });
    response.end(JSON.stringify(answer.body));
  }),
);

const refusal = (message: string) => ({ error: { message, code: "run_not_found", requestId: "r" } });

const keyrun = closedAtEnd(await startKeyrun());
await once(server.listen(0, "127.0.0.1"), "listening");
const { port } = server.address() as AddressInfo;
const env = {
  KEYRUN_URL: `http://127.0.0.1:${port}`,
  KEYRUN_API_KEY: (await keyrun.newKey("demo")).value,
};

beforeEach(() => {
  asked = [];
  answers = {};
});

const run = (argv: readonly string[], circumstances: Circumstances = {}) =>
  runCommand(argv, { env, ...circumstances });
const calls = () => asked.map(({ call }) => call);

const runId = "run_3kd09vbn2m8t5xq7w1zs6hcf";
const running = {
  runId,
  appId: "report",
  state: "RUN_STATE_RUNNING",
  keyId: "7k3f0m9x2a4c6e8g1j5n7p9q",
  createTime: "2026-01-02T03:04:05.678Z",
};
const ended = { ...running, endTime: "2026-01-02T03:14:05.678Z", expireTime: "2026-01-03T03:14:05.678Z" };
const succeeded = { ...ended, state: "RUN_STATE_SUCCEEDED", text: "the report" };
const failed = {
  ...ended,
  state: "RUN_STATE_FAILED",
  error: { code: "run_interrupted", message: "The run was interrupted. The app may have done its work." },
};
const cancelled = {
  ...ended,
  state: "RUN_STATE_CANCELLED",
  error: { code: "run_cancelled", message: "The run was cancelled." },
};

test("run --background asks for it, prints the run's id alone, and says how to get the text", async () => {
  answers["POST /api/apps/report/run"] = { status: 202, body: running };
  const started = await run(["run", "report", "--background", "--idempotency-key", "k", "x"]);
  expect(started).toEqual({
    code: 0,
    stdout: `${runId}\n`,
    stderr: `It runs in the background. \`./keyrun runs show ${runId} --wait 30s\` prints its output, and \`./keyrun runs cancel ${runId}\` ends it.\n`,
  });
  expect(asked).toEqual([
    {
      call: "POST /api/apps/report/run",
      prefer: "respond-async",
      authorization: `Bearer ${env.KEYRUN_API_KEY}`,
      body: '{"text":"x"}',
    },
  ]);
  const json = await run(["run", "report", "--background", "--json", "x"]);
  expect(JSON.parse(json.stdout)).toEqual(running);
});

test("without --background, nothing is preferred", async () => {
  answers["POST /api/apps/report/run"] = { body: { runId, appId: "report", text: "now" } };
  expect((await run(["run", "report", "x"])).stdout).toBe("now");
  expect(asked).toMatchObject([{ prefer: undefined }]);
});

test("run --background of what has ended by then prints the text, and says so", async () => {
  answers["POST /api/apps/echo/run"] = { body: { runId, appId: "echo", text: "x" } };
  expect(await run(["run", "echo", "--background", "x"])).toEqual({
    code: 0,
    stdout: "x",
    stderr: "It has ended: this is its output, and nothing goes on in the background.\n",
  });
});

test("runs show prints the text of a run that has succeeded, exactly", async () => {
  answers[`GET /api/runs/${runId}`] = { body: succeeded };
  expect(await run(["runs", "show", runId])).toEqual({ code: 0, stdout: "the report", stderr: "" });
  answers[`GET /api/runs/${runId}`] = { body: { ...succeeded, text: "" } };
  expect(await run(["runs", "show", runId])).toEqual({ code: 0, stdout: "", stderr: "" });
  expect(asked).toMatchObject([{ call: `GET /api/runs/${runId}`, body: "" }, {}]);
});

test("runs show prints the JSON of a run without a text, and of any with --output json", async () => {
  const output = { celsius: [21, null] };
  const json = `${JSON.stringify(output, null, 2)}\n`;
  const { text, ...alone } = { ...succeeded, output };
  answers[`GET /api/runs/${runId}`] = { body: alone };
  expect(await run(["runs", "show", runId])).toEqual({ code: 0, stdout: json, stderr: "" });
  answers[`GET /api/runs/${runId}`] = { body: { ...alone, output: null } };
  expect(await run(["runs", "show", runId])).toEqual({ code: 0, stdout: "null\n", stderr: "" });
  answers[`GET /api/runs/${runId}`] = { body: { ...alone, text } };
  expect((await run(["runs", "show", runId])).stdout).toBe(text);
  expect((await run(["runs", "show", runId, "--output", "json"])).stdout).toBe(json);
});

test.each([
  ["goes on", running, 3, `Run ${runId} goes on, since 2026-01-02T03:04:05Z.\n`],
  ["failed", failed, 1, `Run ${runId} failed at 2026-01-02T03:14:05Z. ${failed.error.message}\n`],
  [
    "was cancelled",
    cancelled,
    1,
    `Run ${runId} was cancelled at 2026-01-02T03:14:05Z. The run was cancelled.\n`,
  ],
  [
    "lost its text",
    { ...ended, state: "RUN_STATE_SUCCEEDED", textDropped: true },
    1,
    `Run ${runId} succeeded at 2026-01-02T03:14:05Z. Its output is not kept any more: newer ones took its room.\n`,
  ],
])("runs show tells a run that %s by its words and its exit status", async (_, body, code, stderr) => {
  answers[`GET /api/runs/${runId}`] = { body };
  expect(await run(["runs", "show", runId])).toEqual({ code, stdout: "", stderr });
  const json = await run(["runs", "show", runId, "--json"]);
  expect({ code: json.code, stderr: json.stderr }).toEqual({ code, stderr: "" });
  expect(JSON.parse(json.stdout)).toEqual(body);
});

test("runs show --wait asks once, and for so many seconds", async () => {
  answers[`GET /api/runs/${runId}`] = { body: running };
  for (const wait of ["1s", "30s", "50s"]) await run(["runs", "show", runId, "--wait", wait]);
  await run(["runs", "show", runId]);
  const call = `GET /api/runs/${runId}`;
  expect(asked).toMatchObject(
    ["wait=1", "wait=30", "wait=50", undefined].map((prefer) => ({ call, prefer })),
  );
});

test("runs cancel says how the run has ended, also where that was before", async () => {
  answers[`POST /api/runs/${runId}/cancel`] = { body: cancelled };
  expect(await run(["runs", "cancel", runId])).toEqual({
    code: 0,
    stdout: `Run ${runId} was cancelled at 2026-01-02T03:14:05Z.\n`,
    stderr: "",
  });
  expect(asked).toMatchObject([{ body: "{}" }]);
  answers[`POST /api/runs/${runId}/cancel`] = { body: succeeded };
  expect((await run(["runs", "cancel", runId])).stdout).toBe(
    `Run ${runId} succeeded at 2026-01-02T03:14:05Z.\n`,
  );
  expect(JSON.parse((await run(["runs", "cancel", runId, "--json"])).stdout)).toEqual(succeeded);
});

test("runs list is a table of the newest runs, and says where there are older ones", async () => {
  const { text: _, ...listed } = succeeded;
  answers["GET /api/runs"] = { body: { runs: [running, listed], nextPageToken: "p2" } };
  expect(await run(["runs", "list"])).toEqual({
    code: 0,
    stdout: [
      "ID                            APP     STATE      STARTED               ENDED                 KEPT UNTIL            KEY",
      `${runId}  report  running    2026-01-02T03:04:05Z  -                     -                     7k3f0m9x2a4c6e8g1j5n7p9q`,
      `${runId}  report  succeeded  2026-01-02T03:04:05Z  2026-01-02T03:14:05Z  2026-01-03T03:14:05Z  7k3f0m9x2a4c6e8g1j5n7p9q`,
      "",
    ].join("\n"),
    stderr: "There are older ones: --all lists them, too.\n",
  });
  expect(calls()).toEqual(["GET /api/runs?page_size=100"]);
});

test("runs list --all reads page by page to the end, and --json is one message", async () => {
  answers["GET /api/runs"] = (query) => {
    const page = query.get("page_token") ?? "";
    return {
      body: { runs: [{ ...running, appId: `app-${page}` }], nextPageToken: page === "" ? "two" : "" },
    };
  };
  const { stdout } = await run(["runs", "list", "--all", "--json"]);
  expect(JSON.parse(stdout)).toEqual({
    runs: [
      { ...running, appId: "app-" },
      { ...running, appId: "app-two" },
    ],
    nextPageToken: "",
  });
  expect(calls()).toEqual(["GET /api/runs?page_size=100", "GET /api/runs?page_size=100&page_token=two"]);
});

test("a run that is not there, and a list that is refused, are told in Keyrun's words", async () => {
  answers["GET /api/runs"] = { status: 429, body: refusal("The team has used its 60 requests a minute.") };
  for (const argv of [
    ["runs", "show", runId],
    ["runs", "cancel", runId],
  ]) {
    expect(await run(argv)).toEqual({
      code: 1,
      stdout: "",
      stderr: "There is no such run. (request id r)\n",
    });
  }
  expect(await run(["runs", "list"])).toEqual({
    code: 1,
    stdout: "",
    stderr: "The team has used its 60 requests a minute. (request id r)\n",
  });
});

test("what an answer says is printed without what misleads the reader of a terminal", async () => {
  answers[`GET /api/runs/${runId}`] = { body: { ...failed, error: { message: "a\u001b[2J\u202eb" } } };
  answers["GET /api/runs"] = { body: { runs: [{ ...running, appId: "a\u001b[2J" }] } };
  expect((await run(["runs", "show", runId])).stderr).toContain("a�[2J�b");
  expect((await run(["runs", "list"])).stdout).toContain("a�[2J");
});
