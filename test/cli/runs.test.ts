import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { openPublicApi } from "#src/cli/public-api.ts";
import { serveHttp } from "../harness/app-backends.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { type Circumstances, runCommand } from "../harness/command-line.ts";
import { freePort } from "../harness/free-port.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { createManualClock } from "../harness/manual-clock.ts";

const keyrun = closedAtEnd(await startKeyrun({ settings: { KEYRUN_BODY_BYTES_MAX: "2000" } }));
const teamKey = async (restrictions = {}) => keyrun.newKey(await keyrun.newTeam(), restrictions);
const env = { KEYRUN_URL: keyrun.publicUrl, KEYRUN_API_KEY: (await teamKey()).value };

const run = (argv: readonly string[], circumstances: Circumstances = {}) =>
  runCommand(argv, { ...circumstances, env: { ...env, ...circumstances.env } });

/** A Keyrun whose minute does not pass. */
async function keyrunInOneMinute() {
  const still = await startKeyrun({
    clock: createManualClock({ monotonicMs: 0, unixMs: Date.UTC(2026, 0, 2) }),
  });
  onTestFinished(() => still.close());
  return { newKey: still.newKey, KEYRUN_URL: still.publicUrl };
}

/** A server in place of Keyrun, and the requests that it got. */
async function serve(listener: RequestListener) {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    request.resume();
    listener(request, response);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

test("run prints the app's text exactly, and nothing else", async () => {
  for (const text of ["hello", "ends\n", "a\tb\r\n\n", "\u001b[31mred", "日本 👩‍👩‍👧", ""]) {
    expect(await run(["run", "echo", text])).toEqual({ code: 0, stdout: text, stderr: "" });
    expect(await run(["run", "echo", "--stream", text])).toEqual({ code: 0, stdout: text, stderr: "" });
  }
});

describe("--input", () => {
  const input = { city: "Oslo", at: [1.5, { __proto__: null, "": null }], c: "\u2028" };
  const file = join(keyrun.config.dataDir, "in.json");

  test("sends the object of a file or of standard input, whole, streamed, and with a text beside it", async () => {
    const json = JSON.stringify(input);
    writeFileSync(file, `\n ${json} \n`);
    for (const options of [[], ["--stream"], ["--output", "json"], ["--stream", "--output", "json"]]) {
      for (const from of [file, "-"]) {
        const argv = ["run", "echo", "--input", from, ...options];
        const { code, stdout, stderr } = await run(argv, { stdin: from === "-" ? [json] : [] });
        expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
        expect(JSON.parse(stdout)).toEqual(input);
      }
    }
    const both = ["run", "echo", "hi", "--input", file];
    expect(await run(both)).toEqual({ code: 0, stdout: "hi", stderr: "" });
    expect(await run([...both, "--stream"])).toMatchObject({ code: 0, stdout: "hi" });
    for (const options of [
      ["--output", "json"],
      ["--stream", "--output", "json"],
    ]) {
      expect(JSON.parse((await run([...both, ...options])).stdout)).toEqual(input);
    }
    const whole = JSON.parse((await run([...both, "--json"])).stdout);
    expect(whole).toMatchObject({ appId: "echo", text: "hi", output: input });
  });

  test.each([
    ["", "holds no JSON: it is empty. Write an object there, such as {"],
    ['{\n  "a": 1,\n}', "holds no JSON: see line 3 column 1. Write an object"],
    ["secret-word", "holds no JSON. Write an object there"],
    ["[1]", "holds no JSON object: put the input into one, such as {"],
    ["null", "holds no JSON object"],
  ])("with %j in the file is refused in words", async (json, words) => {
    writeFileSync(file, json);
    const { code, stdout, stderr } = await run(["run", "echo", "--input", file]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain(`The file ${file} of --input ${words}`);
    expect(stderr).not.toContain("secret-word");
  });

  test("of a file that is not there, or of one standard input for two, is refused in words", async () => {
    const absent = await run(["run", "echo", "--input", "none.json"]);
    expect(absent).toMatchObject({ code: 2, stderr: expect.stringContaining("can't be read. With -") });
    const twice = await run(["run", "echo", "-", "--input", "-"], { stdin: ["{}"] });
    expect(twice).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("Only one of <text> and --input"),
    });
  });

  test("--output json of an app that gave a text alone says so", async () => {
    for (const options of [[], ["--stream"]]) {
      const alone = await run(["run", "echo", "hi", "--output", "json", ...options]);
      expect(alone).toEqual({
        code: 1,
        stdout: "",
        stderr: "The app gave a text and no JSON: leave out --output.\n",
      });
    }
  });

  test.each([
    [["--json", "--output", "json"], "Give --json or --output, not both."],
    [["--background", "--output", "json"], "give --output to `runs show`"],
  ])("run %j is wrong use", async (options, words) => {
    const { code, stderr } = await run(["run", "echo", "hi", ...options]);
    expect(code).toBe(2);
    expect(stderr).toContain(words);
  });
});

test("a terminal gets a line break after the text, and nothing that misleads its reader", async () => {
  for (const options of [[], ["--stream"]]) {
    const shown = async (text: string) =>
      (await run(["run", "echo", ...options, "--", text], { columns: 80 })).stdout;
    expect(await shown("hello")).toBe("hello\n");
    expect(await shown("hello\n")).toBe("hello\n");
    expect(await shown("a\tb\n\u001b]0;title\u0007 \u202eevil")).toBe("a\tb\n�]0;title� �evil\n");
  }
});

test("run takes its text from standard input, with - or without a text, to the last byte", async () => {
  const bytes = Buffer.from("\ufeff日本\n");
  const stdin = [bytes.subarray(0, 4), bytes.subarray(4)];
  for (const argv of [
    ["run", "echo"],
    ["run", "echo", "-"],
    ["run", "echo", "--stream"],
  ]) {
    expect(await run(argv, { stdin })).toEqual({ code: 0, stdout: "\ufeff日本\n", stderr: "" });
  }
});

test("run sends nothing that is not UTF-8, is longer than any text may be, or was forgotten", async () => {
  const server = await serve(() => {});
  const refused = async (circumstances: Circumstances) => {
    const { code, stderr } = await run(["run", "echo"], {
      ...circumstances,
      env: { KEYRUN_URL: server.url },
    });
    return { code, stderr };
  };
  expect(await refused({ stdin: [Buffer.from([0x68, 0xff])] })).toEqual({
    code: 1,
    stderr: "Standard input is not a text in UTF-8.\n",
  });
  expect(await refused({ stdin: Array(17).fill("x".repeat(1024 * 1024)) })).toEqual({
    code: 1,
    stderr: "Standard input is longer than 16777216 bytes.\n",
  });
  expect(await refused({ isTyped: true })).toEqual({
    code: 2,
    stderr: "Say what to send: a text, or - to type it here until Ctrl-D.\n",
  });
  expect(server.asked).toEqual([]);
});

test("--json prints the whole answer, and of a stream a message a line, its end too", async () => {
  const { stdout } = await run(["run", "echo", "--json", "two words"]);
  expect(JSON.parse(stdout)).toEqual({
    runId: expect.stringMatching(/^run_[0-9a-z]{24}$/),
    appId: "echo",
    text: "two words",
  });
  // Readers of lines may cut at this one.
  const streamed = await run(["run", "echo", "--json", "--stream", "two \u2028words"]);
  expect(streamed.stdout).not.toContain("\u2028");
  expect(
    streamed.stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line)),
  ).toEqual([
    { started: { runId: expect.stringMatching(/^run_/), appId: "echo" } },
    { delta: { text: "two \u2028" } },
    { delta: { text: "words" } },
    { end: {} },
  ]);
});

test("a repeat with the same --idempotency-key is the same run, and another is another", async () => {
  const runId = async (key: string) =>
    JSON.parse((await run(["run", "echo", "--idempotency-key", key, "--json", "x"])).stdout).runId;
  const first = await runId("order-4711");
  expect(await runId("order-4711")).toBe(first);
  expect(await runId("order-4712")).not.toBe(first);
});

test("a refusal is told in Keyrun's words on standard error, with exit status 1", async () => {
  const restricted = await teamKey({ appIds: ["echo"] });
  const revoked = await teamKey();
  await keyrun.keys.revokeKey({ teamId: revoked.teamId, keyId: revoked.id });
  const cases: [string[], string | undefined, RegExp][] = [
    [["nowhere", "x"], undefined, /^The team has no app with this id\. Check the app id\. \(/],
    [["other", "x"], restricted.value, /^The API key is restricted to other apps\. .*\n$/],
    [["echo", "x"], revoked.value, /^The API key was revoked at .*\n$/],
    [["echo", "x"], keyrun.unknownKey(), /^The API key is incomplete or not known\. .*\n$/],
    [["echo", "x".repeat(2_000)], undefined, /^The body is larger than 2000 bytes\. .*\n$/],
  ];
  for (const [args, key, words] of cases) {
    for (const options of [[], ["--stream"], ["--json"]]) {
      const refused = await run(["run", ...args, ...options], {
        ...(key && { env: { KEYRUN_API_KEY: key } }),
      });
      expect(refused).toMatchObject({ code: 1, stderr: expect.stringMatching(words) });
      const [, id] = /\(request id ([\w-]+)\)\n$/.exec(refused.stderr) ?? [];
      expect(id).toBeDefined();
      const { error } = options.includes("--json") ? JSON.parse(refused.stdout) : {};
      if (options.includes("--json")) expect(refused.stderr).toContain(error.message);
      else expect(refused.stdout).toBe("");
      if (error) expect(error).toMatchObject({ code: expect.any(String), requestId: id });
    }
  }
});

test("a text that is far longer than Keyrun takes is refused in its words, and no broken connection", async () => {
  for (let n = 0; n < 5; n++) {
    expect(await run(["run", "echo"], { stdin: Array(10).fill("x".repeat(1024 * 1024)) })).toEqual({
      code: 1,
      stdout: "",
      stderr: expect.stringMatching(
        /^The body is larger than 2000 bytes. Send a smaller body. \(request id /,
      ),
    });
  }
});

test("at the limit, a refusal says once how long to wait", async () => {
  const { newKey, KEYRUN_URL } = await keyrunInOneMinute();
  const { value } = await newKey("demo", { requestsPerMinute: 1 });
  const call = (...options: string[]) =>
    run(["run", "echo", ...options, "x"], { env: { KEYRUN_URL, KEYRUN_API_KEY: value } });
  expect((await call()).code).toBe(0);
  for (const options of [[], ["--stream"]]) {
    expect(await call(...options)).toEqual({
      code: 1,
      stdout: "",
      stderr: expect.stringMatching(
        /^The key has used its 1 requests a minute\. Try again in 60 s\. \(request id [\w-]+\)\n$/,
      ),
    });
  }
});

test("a Retry-After that the words don't tell is told, and the request id of a fault inside", async () => {
  const body = (message: string) => JSON.stringify({ error: { message, requestId: "req-1" } });
  const server = await serve(({ url }, response) => {
    const status = url?.includes("broken") ? 500 : 503;
    response.writeHead(status, {
      "content-type": "application/json",
      ...(status === 503 && { "retry-after": "7" }),
    });
    response.end(body(status === 503 ? "The app is busy." : "Something failed."));
  });
  const stderrOf = async (app: string) =>
    (await run(["run", app, "x"], { env: { KEYRUN_URL: server.url } })).stderr;
  expect(await stderrOf("busy")).toBe("The app is busy. Try again in 7 s. (request id req-1)\n");
  expect(await stderrOf("broken")).toBe("Something failed. Tell the operator the request id req-1.\n");
});

test("without a key, or with what is none, nothing is sent and nothing of it is printed", async () => {
  const server = await serve((_, response) => response.end());
  const whole = env.KEYRUN_API_KEY ?? "";
  const call = (key: string | undefined, ...argv: string[]) =>
    runCommand(argv, { env: { KEYRUN_URL: server.url, ...(key !== undefined && { KEYRUN_API_KEY: key }) } });
  for (const argv of [["run", "echo", "x"], ["runs", "list"], ["limit"]]) {
    for (const key of [undefined, ""]) {
      expect(await call(key, ...argv)).toEqual({
        code: 1,
        stdout: "",
        stderr: expect.stringMatching(/^KEYRUN_API_KEY is not set: /),
      });
    }
    const wrong = [
      whole.slice(0, -1),
      `${whole}\n`,
      `"${whole}"`,
      keyrun.serviceToken,
      whole.replace(/.$/, "!"),
    ];
    for (const key of wrong) {
      const { code, stdout, stderr } = await call(key, ...argv);
      expect([code, stdout]).toEqual([1, ""]);
      expect(stderr).toMatch(/^KEYRUN_API_KEY holds no whole API key: /);
      expect(stderr).not.toContain(key.slice(10, 20));
    }
  }
  expect(server.asked).toEqual([]);
});

test("a key with another prefix than the settings' is taken, and never printed", async () => {
  const other = await startKeyrun({ settings: { KEYRUN_KEY_PREFIX: "acme" } });
  onTestFinished(() => other.close());
  const { value } = await other.newKey("demo");
  const call = (app: string) =>
    runCommand(["run", app, "x"], { env: { KEYRUN_URL: `${other.publicUrl}/`, KEYRUN_API_KEY: value } });
  expect(await call("echo")).toEqual({ code: 0, stdout: "x", stderr: "" });
  expect((await call(value)).stderr).toBe("<app_id> must be the id of an app.\n");
});

test("without KEYRUN_URL, the port of the settings is taken, on this machine", async () => {
  const { port } = new URL(keyrun.publicUrl);
  const { KEYRUN_API_KEY = "" } = env;
  const settings = { KEYRUN_API_KEY, KEYRUN_DATA_DIR: keyrun.config.dataDir };
  const call = (more: Record<string, string>) =>
    runCommand(["run", "echo", "x"], { env: { ...settings, ...more } });
  expect(await call({ KEYRUN_PORT: port })).toEqual({ code: 0, stdout: "x", stderr: "" });
  expect((await call({ KEYRUN_PORT: port, KEYRUN_HOST: "0.0.0.0" })).code).toBe(0);
  expect(await call({ KEYRUN_PORT: "0" })).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^KEYRUN_PORT is 0, .* set KEYRUN_URL /),
  });
});

test.each(["", "keyrun.example.com", "ftp://x", "https://u:p@x", "https://x/?a", "https://x/#a"])(
  "%j is no KEYRUN_URL",
  async (url) => {
    expect(await run(["run", "echo", "x"], { env: { KEYRUN_URL: url } })).toEqual({
      code: 1,
      stdout: "",
      stderr:
        "KEYRUN_URL must be the address of Keyrun's public listener, like https://keyrun.example.com.\n",
    });
  },
);

test("where nobody answers, or something else than Keyrun, the address is named", async () => {
  const nobody = `http://127.0.0.1:${await freePort()}`;
  const call = async (url: string, ...options: string[]) =>
    (await run(["run", "echo", ...options, "x"], { env: { KEYRUN_URL: url } })).stderr;
  const elsewhere = await serve((_, response) => response.end());
  const others: RequestListener[] = [
    (_, response) => response.end("<html>"),
    (_, response) => response.writeHead(200, { "content-type": "application/json" }).end("[1"),
    (_, response) => response.writeHead(404, { "content-type": "application/json" }).end("{}"),
    (_, response) => response.writeHead(307, { location: elsewhere.url }).end(),
  ];
  for (const options of [[], ["--stream"]]) {
    expect(await call(nobody, ...options)).toBe(
      `There is no answer from ${nobody} (ECONNREFUSED): check that Keyrun runs there, and that KEYRUN_URL is the address of its public listener.\n`,
    );
  }
  for (const other of others) {
    const { url } = await serve(other);
    for (const options of [[], ["--stream"]]) {
      expect(await call(url, ...options)).toMatch(
        new RegExp(
          `^What answers at ${url} is not Keyrun's public listener \\(HTTP \\d+\\): check KEYRUN_URL\\.\\n$`,
        ),
      );
    }
  }
  // What is right for a run is no stream.
  const { url } = await serve((_, response) => {
    response.writeHead(200, { "content-type": "application/json" }).end('{"text":"x"}');
  });
  expect(await call(url, "--stream")).toMatch(/ is not Keyrun's public listener \(HTTP 200\)/);
  const cut = await serve((_, response) => response.destroy());
  expect(await call(cut.url)).toMatch(/^There is no answer from \S+ \(ECONNRESET\): /);
  // The redirect was not followed.
  expect(elsewhere.asked).toEqual([]);
});

test("what falls silent is given up, in words", async () => {
  const mute = await serve(() => {});
  const halfway = await serve((_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write('data: {"delta":{"text":"half"}}\n\n');
  });
  const times = { answerMsMax: 50, streamMsMax: 50 };
  const open = (url: string) =>
    openPublicApi({ env: { ...env, KEYRUN_URL: url }, readFile: () => "" }, times);
  const request = { method: "POST", path: "/api/apps/echo/run", body: '{"text":"x"}' } as const;
  const late = /^Keyrun did not answer at \S+ in time: try again, or see its log\.$/;
  await expect(open(mute.url).ask(request)).rejects.toThrow(late);
  await expect(open(mute.url).stream(request).next()).rejects.toThrow(late);
  const readWhole = async () => {
    for await (const message of open(halfway.url).stream(request))
      expect(message).toEqual({ delta: { text: "half" } });
  };
  await expect(readWhole()).rejects.toThrow(late);
});

test("a stream that breaks off, or whose app fails, ends with exit status 1 after its text", async () => {
  const server = await serve((_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
    response.write(': ping\n\ndata: {"delta":{"text":"half"}}\n\n: ping\n\n');
    setImmediate(() => response.end());
  });
  const broken = await run(["run", "echo", "--stream", "x"], { env: { KEYRUN_URL: server.url } });
  expect(broken).toEqual({
    code: 1,
    stdout: "half",
    stderr: "The stream broke off before its end: text may be missing.\n",
  });
  await using app = await serveHttp((_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write('data: {"text":"half"}\n\n');
    response.end("event: error\ndata: {}\n\n");
  });
  const { url } = app.backend;
  await keyrun.apps.createApp({ app: { id: "half", backend: { kind: { case: "http", value: { url } } } } });
  const failed = await run(["run", "half", "--stream", "x"]);
  expect(failed).toMatchObject({ code: 1, stdout: "half" });
  expect(failed.stderr).toMatch(
    /^The app failed.* under the request id [\w-]+, or by `\.\/keyrun apps check`\.\n$/,
  );
  const asJson = await run(["run", "half", "--stream", "--json", "x"]);
  const lines = asJson.stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(asJson.code).toBe(1);
  expect(lines.at(-1)).toMatchObject({ error: { code: "app_failed", requestId: expect.any(String) } });
});

test("a failure that Keyrun has not answered is JSON, too, for a program that asked for it", async () => {
  const nowhere = { KEYRUN_URL: `http://127.0.0.1:${await freePort()}` };
  const { code, stdout, stderr } = await run(["run", "echo", "--json", "x"], { env: nowhere });
  expect(code).toBe(1);
  expect(`${JSON.parse(stdout).error.message}\n`).toBe(stderr);
  const wrong = await run(["run", "echo", "--json", "--stream", "--background", "x"]);
  expect(wrong.code).toBe(2);
  expect(`${JSON.parse(wrong.stdout).error.message}\n`).toBe(wrong.stderr);
});

test.each<[string[], RegExp]>([
  [["run", "echo", "--stream", "--background", "x"], /^Give --stream or --background, not both\.\n$/],
  [["run", "echo", "--stream", "--idempotency-key", "k", "x"], /^A stream takes no --idempotency-key\.\n$/],
  [["run", "echo", "--idempotency-key", "a b", "x"], /^--idempotency-key must be 1 to 255 /],
  [["run", "echo", "--idempotency-key", "", "x"], /^--idempotency-key must be 1 to 255 /],
  [["run", "../keys", "x"], /^<app_id> must be the id of an app\.\n$/],
  [["runs", "show", "../x"], /^<run_id> must be the id of a run, /],
  [["runs", "cancel", "x"], /^<run_id> must be the id of a run, /],
  [
    ["runs", "show", "run_1", "--wait", "51s"],
    /^--wait must be a number of seconds and its unit s, like 30s, at most 50s\.\n$/,
  ],
  [["runs", "show", "run_1", "--wait", "0s"], /^--wait must be/],
  [["runs", "show", "run_1", "--wait", "1m"], /^--wait must be/],
])("%j is wrong use", async (argv, words) => {
  expect(await run(argv)).toEqual({ code: 2, stdout: "", stderr: expect.stringMatching(words) });
});

test("limit shows what is left of the team's limit and of the key's own, and takes one", async () => {
  const { newKey, KEYRUN_URL } = await keyrunInOneMinute();
  const limit = ({ value }: { value: string }, ...options: string[]) =>
    run(["limit", ...options], { env: { KEYRUN_URL, KEYRUN_API_KEY: value } });
  const plain = await newKey("demo");
  const own = await newKey("demo", { requestsPerMinute: 2 });
  const head = "LIMIT OF  REQUESTS  IN A    LEFT  MORE IN\n";
  expect(await limit(plain)).toEqual({
    code: 0,
    stdout: `${head}team      60        minute  59    60 s\n`,
    stderr: "",
  });
  expect((await limit(own)).stdout).toBe(
    `${head}team      60        minute  58    60 s\nkey       2         minute  1     60 s\n`,
  );
  expect(JSON.parse((await limit(own, "--json")).stdout)).toEqual({
    limits: [
      { name: "team", limit: 60, windowSeconds: 60, remaining: 57, resetSeconds: 60 },
      { name: "key", limit: 2, windowSeconds: 60, remaining: 0, resetSeconds: 60 },
    ],
  });
  // At the limit nothing is taken, and the answer tells it all the same.
  expect((await limit(own)).stdout).toBe(
    `${head}team      60        minute  57    60 s\nkey       2         minute  0     60 s\n`,
  );
});

test("limit takes nothing where the service token is at hand", async () => {
  const own = await startKeyrun();
  onTestFinished(() => own.close());
  const { value } = await own.newKey("demo", { requestsPerMinute: 2 });
  const limit = (more: Record<string, string> = {}) => {
    const env = { KEYRUN_DATA_DIR: own.config.dataDir, KEYRUN_API_KEY: value, ...more };
    return runCommand(["limit", "--json"], { env });
  };
  for (let time = 0; time < 3; time++) {
    const { code, stdout } = await limit();
    expect({ code, ...JSON.parse(stdout) }).toMatchObject({
      code: 0,
      limits: [
        { name: "team", limit: 60, remaining: 60 },
        { name: "key", limit: 2, remaining: 2 },
      ],
    });
  }
  // Of another Keyrun the token may not be known.
  const asked = JSON.parse((await limit({ KEYRUN_URL: own.publicUrl })).stdout);
  expect(asked.limits).toMatchObject([{ remaining: 59 }, { remaining: 1 }]);
});

test("limit of a key that is refused tells why, and no limit", async () => {
  expect(await run(["limit"], { env: { KEYRUN_API_KEY: keyrun.unknownKey() } })).toEqual({
    code: 1,
    stdout: "",
    stderr: expect.stringMatching(/^The API key is incomplete or not known\./),
  });
});
