import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { runCommand } from "../harness/command-line.ts";
import { startKeyrun } from "../harness/keyrun.ts";

const keyrun = closedAtEnd(await startKeyrun());
await keyrun.teams.createTeam({ team: { id: "acme" } });

const url = "http://127.0.0.1:9000/run";
const headers = [{ name: "authorization", value: "[redacted]" }];

beforeEach(async () => {
  for (const { id } of (await keyrun.apps.listApps({})).apps) await keyrun.apps.deleteApp({ appId: id });
  const stored = [{ name: "authorization", value: "Bearer abc" }];
  await keyrun.apps.createApp({
    app: {
      id: "web",
      displayName: "Web",
      backend: { kind: { case: "http", value: { url, headers: stored } } },
      timeout: { seconds: 2n },
      teamIds: ["demo"],
    },
  });
  await keyrun.apps.createApp({
    app: { id: "rpc", backend: { kind: { case: "grpc", value: { target: "127.0.0.1:9001", tls: true } } } },
  });
});

const apps = (...args: string[]) =>
  runCommand(["apps", ...args], { env: { KEYRUN_DATA_DIR: keyrun.config.dataDir } });

async function appOf(appId: string) {
  const { stdout } = await apps("show", appId, "--json");
  const { createTime: _, ...app } = JSON.parse(stdout).app;
  return app;
}

const noTemplate = { request: "", textAt: "", streamTextAt: "", streamEvent: "" };
const before = {
  id: "web",
  displayName: "Web",
  backend: { http: { ...noTemplate, url, headers } },
  timeout: "2s",
  streamTimeout: "600s",
  backgroundTimeout: "600s",
  teamIds: ["demo"],
};

test.each<[string[], object]>([
  [["--name", "Shown"], { displayName: "Shown" }],
  [["--timeout", "1.5s"], { timeout: "1.500s" }],
  [["--timeout", "250ms"], { timeout: "0.250s" }],
  [["--timeout", "10m"], { timeout: "600s" }],
  [["--stream-timeout", "3600s"], { streamTimeout: "3600s" }],
  [["--background-timeout", "0.5h"], { backgroundTimeout: "1800s" }],
  [["--team", "acme"], { teamIds: ["acme"] }],
  [["--team", "acme", "--team", "demo"], { teamIds: ["acme", "demo"] }],
  [["--all-teams"], { teamIds: [] }],
  [
    ["--url", "http://127.0.0.1:9000/other"],
    { backend: { http: { ...noTemplate, url: "http://127.0.0.1:9000/other", headers } } },
  ],
  [
    ["--header", "x-a: b"],
    {
      backend: { http: { ...noTemplate, url, headers: [...headers, { name: "x-a", value: "[redacted]" }] } },
    },
  ],
  [["--header", "Authorization: new"], { backend: { http: { ...noTemplate, url, headers } } }],
  [["--no-headers"], { backend: { http: { ...noTemplate, url, headers: [] } } }],
  [
    ["--request", '{"a":"$text"}'],
    { backend: { http: { ...noTemplate, url, headers, request: '{"a":"$text"}' } } },
  ],
  [["--text-at", "/a"], { backend: { http: { ...noTemplate, url, headers, textAt: "/a" } } }],
  [["--output-at", ""], { backend: { http: { ...noTemplate, url, headers, outputAt: "" } } }],
  [
    ["--stream-text-at", "/a/b"],
    { backend: { http: { ...noTemplate, url, headers, streamTextAt: "/a/b" } } },
  ],
  [
    ["--stream-event", "event=token"],
    { backend: { http: { ...noTemplate, url, headers, streamEvent: "event=token" } } },
  ],
  [["--backend", "echo"], { backend: { echo: {} } }],
  [["--backend", "guard"], { backend: { guard: {} } }],
  [
    ["--backend", "grpc", "--target", "127.0.0.1:9002"],
    { backend: { grpc: { target: "127.0.0.1:9002", tls: false } } },
  ],
])("apps update %j changes that, and nothing else", async (options, change) => {
  const { code, stdout, stderr } = await apps("update", "web", ...options);
  expect(code).toBe(0);
  expect(stderr).toMatch(/^(?:Nothing answers there now: .*\n)?$/);
  expect(stdout).toMatch(/^App web is changed\. It is for /);
  expect(await appOf("web")).toEqual({ ...before, ...change });
});

test("a gRPC backend keeps what is not named", async () => {
  await apps("update", "rpc", "--target", "127.0.0.1:9002");
  expect((await appOf("rpc")).backend).toEqual({ grpc: { target: "127.0.0.1:9002", tls: true } });
  await apps("update", "rpc", "--no-tls");
  expect((await appOf("rpc")).backend).toEqual({ grpc: { target: "127.0.0.1:9002", tls: false } });
});

test("headers never follow a URL to another server by themselves", async () => {
  const other = ["--url", "http://127.0.0.1:9005/run"];
  const { code, stderr } = await apps("update", "web", ...other);
  expect(code).toBe(2);
  expect(stderr).toBe(
    "The headers of `web` may hold credentials, so they stay with its old server. Give them again with --header, or send none with --no-headers.\n",
  );
  expect(await appOf("web")).toEqual(before);
  expect((await apps("update", "web", ...other, "--no-headers")).code).toBe(0);
});

test.each([
  [[], "Say what to change."],
  [["--team", "acme", "--all-teams"], "--team or --all-teams, not both"],
  [["--header", "a: b", "--no-headers"], "--header or --no-headers, not both"],
  [["--backend", "echo", "--text-at", "/a"], "--backend http"],
  [["--backend", "guard", "--no-request"], "--backend http"],
  [["--tls"], "--backend grpc"],
  [["--target", "127.0.0.1:1"], "--backend grpc"],
  [["--backend", "grpc"], "needs --target"],
  [["--header", "Bearer hunter2"], "'Name: value'"],
])("apps update web %j is wrong use, and changes nothing", async (options, words) => {
  const { code, stdout, stderr } = await apps("update", "web", ...options);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toContain(words);
  expect(stderr).not.toContain("hunter2");
  expect(await appOf("web")).toEqual(before);
});

test("each field of a template is set, shown, kept and cleared by itself, and one comes from a file", async () => {
  const file = join(keyrun.config.dataDir, "request.json");
  await writeFile(file, '{\n  "a b": "$text",\n  "n": 1.0\n}\n');
  const request = '{\n  "a b": "$text",\n  "n": 1.0\n}';
  const set = [
    "--text-at",
    "/a",
    "--output-at",
    "/o",
    "--stream-text-at",
    "/b",
    "--stream-event",
    "event=token",
  ];
  const at = ["--backend", "http", "--url", url];
  expect((await apps("create", "own", ...at, "--request", `@${file}`, ...set)).code).toBe(0);
  const all = { request, textAt: "/a", outputAt: "/o", streamTextAt: "/b", streamEvent: "event=token" };
  const httpOf = async () => (await appOf("own")).backend.http;
  expect(await httpOf()).toEqual({ url, headers: [], ...all });
  expect((await apps("show", "own")).stdout).toContain(
    [
      'request             { "a b": "$text", "n": 1.0 }',
      "text at             /a",
      "output at           /o",
      "stream text at      /b",
      "stream event        event=token",
      "timeout             30s",
    ].join("\n"),
  );
  expect((await apps("update", "own", "--url", `${url}/2`, "--header", "x-a: b")).code).toBe(0);
  expect(await httpOf()).toMatchObject(all);
  const others = ["--no-output-at", "--no-stream-text-at", "--no-stream-event"];
  const clears = ["--no-request", "--no-text-at", ...others];
  for (const option of clears) expect((await apps("update", "own", option)).code).toBe(0);
  expect(await httpOf()).toMatchObject(noTemplate);
  expect(await httpOf()).not.toHaveProperty("outputAt");
});

test.each([
  [["--request", "{"], "--request must be JSON"],
  [["--request", '{"a":"$wrod"}'], "is none of $text, $input, $runId, $teamId, $keyId, $appId, $stream"],
  [["--request", "@/no/such/file"], "The file /no/such/file of --request can't be read."],
  [["--request", "@/dev/null"], "--request must be JSON"],
  [["--text-at", "choices"], "--text-at must be a JSON Pointer, which begins with a slash"],
  [["--stream-text-at", "a/b"], "--stream-text-at must be a JSON Pointer"],
  [["--output-at", "data"], "--output-at must be a JSON Pointer"],
  [["--stream-event", "token"], "--stream-event must be member=value"],
])("apps update web %j is refused in words, and changes nothing", async (options, words) => {
  const { code, stdout, stderr } = await apps("update", "web", ...options);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toContain(words);
  expect(await appOf("web")).toEqual(before);
});

test("apps show has a line for each fact, and no value of a header", async () => {
  const { stdout } = await apps("show", "web");
  expect(stdout.replace(/created.*\n/, "")).toBe(
    [
      "id                  web",
      "name                Web",
      `backend             http ${url}`,
      "header              authorization: [redacted]",
      "timeout             2s",
      "stream timeout      600s",
      "background timeout  600s",
      "teams               demo",
      "",
    ].join("\n"),
  );
});

test("apps create makes a guard, and apps show says where a proxy asks it", async () => {
  const { code, stdout, stderr } = await apps("create", "orders", "--backend", "guard", "--team", "demo");
  expect({ code, stdout, stderr }).toEqual({
    code: 0,
    stdout: "App orders is created, for demo.\n",
    stderr: "",
  });
  const show = (env: Record<string, string>) =>
    runCommand(["apps", "show", "orders"], { env: { KEYRUN_DATA_DIR: keyrun.config.dataDir, ...env } });
  expect((await show({})).stdout.replace(/created.*\n/, "")).toBe(
    [
      "id       orders",
      "name     orders",
      "backend  guard",
      "guard    http://127.0.0.1:8080/api/apps/orders/guard",
      "teams    demo",
      "",
    ].join("\n"),
  );
  const url = "https://keyrun.example.com";
  expect((await show({ KEYRUN_URL: url })).stdout).toContain(`guard    ${url}/api/apps/orders/guard\n`);
  expect((await show({ KEYRUN_PORT: "0" })).stdout).toContain("guard    /api/apps/orders/guard\n");
  expect((await apps("list")).stdout).toMatch(/^orders +orders +guard /m);
  for (const option of [
    ["--url", url],
    ["--target", "127.0.0.1:1"],
  ]) {
    expect((await apps("update", "orders", ...option)).code).toBe(2);
  }
});
