import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Language, languages, type SnippetFacts, snippet } from "../../../web/try-it/snippet.ts";

const key = "svc_7k3f0m9x2a4c6e8g1j5n7p9q.0000000000000000000000000000000000000000000000000";
const run = promisify(execFile);
const runners: Record<Language, (program: string) => [string, string[]]> = {
  curl: (program) => ["sh", ["-c", program]],
  javascript: (program) => [process.execPath, ["--input-type=module", "--eval", program]],
  python: (program) => ["python3", ["-c", program]],
};

const requests: unknown[] = [];
const server = createServer(async (request, response) => {
  const { method, url, headers } = request;
  const type = headers["content-type"];
  requests.push({
    method,
    url,
    authorization: headers.authorization,
    type,
    body: JSON.parse(await text(request)),
  });
  response
    .setHeader("Content-Type", "application/json")
    .end('{"runId":"run_1","appId":"echo","text":"hello"}');
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
  test(`the ${name} snippet, pasted as it is, runs the app with the key of the environment`, async () => {
    await expectRun(name, { appId: "echo" }, { KEYRUN_URL: url, KEYRUN_API_KEY: key });
  });

  test(`the ${name} snippet with the real key in it runs without an environment`, async () => {
    await expectRun(name, { appId: "echo", real: { url, key } }, {});
  });

  test(`the ${name} snippet of the page holds no key`, () => {
    const program = snippet(name, { appId: "echo" });
    expect(program).toContain("KEYRUN_API_KEY");
    expect(program).not.toContain("svc_");
  });
}

async function expectRun(language: Language, facts: SnippetFacts, environment: Record<string, string>) {
  requests.length = 0;
  const [command, argv] = runners[language](snippet(language, facts));
  const { stdout } = await run(command, argv, { env: { PATH: process.env.PATH, ...environment } });
  expect(stdout).toContain("run_1");
  expect(requests).toEqual([
    {
      method: "POST",
      url: "/api/apps/echo/run",
      authorization: `Bearer ${key}`,
      type: "application/json",
      body: { text: "hello" },
    },
  ]);
}
