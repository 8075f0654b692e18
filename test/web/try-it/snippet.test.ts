import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type Call,
  guardSnippet,
  type Language,
  languages,
  type SnippetFacts,
  sentTexts,
  snippet,
} from "../../../web/try-it/snippet.ts";
import { describeWith, programsMissing } from "../../harness/needs.ts";

const key = "svc_7k3f0m9x2a4c6e8g1j5n7p9q.0000000000000000000000000000000000000000000000000";
const runners: Record<Language, (program: string) => [string, string[]]> = {
  curl: (program) => ["sh", ["-c", program]],
  javascript: (program) => [process.execPath, ["--input-type=module", "--eval", program]],
  python: (program) => ["python3", ["-c", program]],
};
/** Those of Node are run in each tier. */
const describeRun = (language: Language, name: string, suite: () => void) =>
  language === "javascript"
    ? describe(name, suite)
    : describeWith(programsMissing(language === "python" ? "python3" : language))(name, suite);
const calls: readonly Call[] = ["run", "stream"];

const requests: unknown[] = [];
/** The messages of a stream, after the first one. */
let messages: object[] = [];
const whole = [
  ...[{ ping: {} }, { delta: { text: "hel" } }, { delta: {} }, { ping: {} }],
  ...[{ delta: { text: "lo ☀" } }, { ping: {} }, { end: {} }],
];

const server = createServer(async (request, response) => {
  const { method, url, headers } = request;
  if (url?.endsWith("/guard")) {
    requests.push({ method, url, authorization: headers.authorization });
    response.setHeader("X-Keyrun-Team", "demo").end();
    return;
  }
  const type = headers["content-type"];
  const body = JSON.parse(await text(request));
  requests.push({ method, url, authorization: headers.authorization, type, body });
  const started = { started: { runId: "run_1", appId: "echo" } };
  if (url?.endsWith("/run")) {
    response.setHeader("Content-Type", "application/json");
    response.end('{"runId":"run_1","appId":"echo","text":"hello"}');
  } else if (headers.accept === "application/x-ndjson") {
    response.setHeader("Content-Type", "application/x-ndjson");
    for (const message of [started, ...messages]) response.write(`${JSON.stringify(message)}\n`);
    response.end();
  } else {
    response.setHeader("Content-Type", "text/event-stream; charset=utf-8");
    response.write(`data: ${JSON.stringify(started)}\n\n`);
    response.end('data: {"delta":{"text":"hello"}}\n\nevent: end\ndata: {}\n\n');
  }
});
let url = "";

beforeAll(async () => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(() => {
  server.close();
  server.closeAllConnections();
});

for (const { name } of languages) {
  describe.each(calls)(`the ${name} snippet of the call %s`, (call) => {
    describeRun(name, "pasted as it is", () => {
      test("runs the app with the key of the environment", async () => {
        await expectRun(name, { appId: "echo", call }, { KEYRUN_URL: url, KEYRUN_API_KEY: key });
      });
    });

    describeRun(name, "with JSON beside the text", () => {
      test.each([
        '{"city":"Oslo","__proto__":{"a":1}}',
        '{"it\'s":"\\u2028 \\"a\\" $HOME `b` \\\\","on":true,"of":null,"n":[1.5,-2e3]}',
      ])("sends %s as it was written", async (json) => {
        requests.length = 0;
        messages = whole;
        const program = snippet(name, { appId: "echo", call, json });
        const { failed } = await run(name, program, { KEYRUN_URL: url, KEYRUN_API_KEY: key });
        expect(failed).toBe(false);
        // As text: a name `__proto__` would not be seen otherwise.
        const sent = { text: sentTexts[call], input: JSON.parse(json) };
        expect(requests.map((request) => JSON.stringify((request as { body: unknown }).body))).toEqual([
          JSON.stringify(sent),
        ]);
      });
    });

    test("on the page, holds no key", () => {
      const program = snippet(name, { appId: "echo", call });
      expect(program).toContain("KEYRUN_API_KEY");
      expect(program).not.toContain("svc_");
    });
  });
}

for (const language of ["javascript", "python"] as const) {
  describeRun(language, `the ${language} snippet of a stream`, () => {
    const program = () => snippet(language, { appId: "echo", call: "stream" });
    const environment = () => ({ KEYRUN_URL: url, KEYRUN_API_KEY: key });

    test("prints the text alone, each letter once", async () => {
      messages = whole;
      expect(await run(language, program(), environment())).toMatchObject({
        failed: false,
        stdout: "hello ☀",
      });
    });

    test("fails with Keyrun's words when the stream ends with an error", async () => {
      messages = [{ delta: { text: "hel" } }, { error: { message: "The app has failed." } }];
      const { failed, stdout, stderr } = await run(language, program(), environment());
      expect({ failed, stdout }).toEqual({ failed: true, stdout: "hel" });
      expect(stderr).toContain("The app has failed.");
    });

    test("fails when the stream stops without its end", async () => {
      messages = [{ delta: { text: "hel" } }];
      const { failed, stderr } = await run(language, program(), environment());
      expect({ failed, told: stderr.includes("The stream broke off.") }).toEqual({
        failed: true,
        told: true,
      });
    });
  });
}

describeRun("curl", "the snippet of a guard", () => {
  test("asks it with the key of the environment, and shows the headers of the answer", async () => {
    requests.length = 0;
    const environment = { KEYRUN_URL: url, KEYRUN_API_KEY: key };
    const { failed, stdout } = await run("curl", guardSnippet("orders"), environment);
    expect({ failed, shown: stdout.includes("X-Keyrun-Team: demo") }).toEqual({ failed: false, shown: true });
    expect(requests).toEqual([
      { method: "GET", url: "/api/apps/orders/guard", authorization: `Bearer ${key}` },
    ]);
  });
});

async function expectRun(language: Language, facts: SnippetFacts, environment: Record<string, string>) {
  requests.length = 0;
  messages = whole;
  const { failed, stdout } = await run(language, snippet(language, facts), environment);
  expect({ failed, answered: /run_1|hello/.test(stdout) }).toEqual({ failed: false, answered: true });
  expect(requests).toEqual([
    {
      method: "POST",
      url: `/api/apps/echo/${facts.call}`,
      authorization: `Bearer ${key}`,
      type: "application/json",
      body: { text: sentTexts[facts.call] },
    },
  ]);
}

function run(language: Language, program: string, environment: Record<string, string> = {}) {
  const [command, argv] = runners[language](program);
  const env = { PATH: process.env.PATH, PYTHONIOENCODING: "utf8", ...environment };
  return new Promise<{ failed: boolean; stdout: string; stderr: string }>((resolve) => {
    execFile(command, argv, { env }, (error, stdout, stderr) =>
      resolve({ failed: error !== null, stdout, stderr }),
    );
  });
}
