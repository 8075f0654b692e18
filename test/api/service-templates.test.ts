import { readFileSync } from "node:fs";
import { join } from "node:path";
import OpenAI from "openai";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { bodyOf, serveHttp } from "../harness/app-backends.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { runCommand } from "../harness/command-line.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { repository } from "../harness/keyrun-process.ts";
import { answerAs, type StandIn, standIns, words } from "./service-stand-ins.ts";

/** Every `apps create` with a template that these pages have, with its words. */
const allLines = ["docs/apps.md", "README.md"].flatMap((page) =>
  readFileSync(join(repository, page), "utf8")
    .replaceAll("\\\n", " ")
    .split("\n")
    .filter((line) => line.startsWith("./keyrun apps create ") && line.includes("--request"))
    .map((line) => ({ page, id: line.split(" ")[3] ?? "", args: wordsOf(line).slice(1) })),
);
/** Those whose service takes a text. */
const lines = allLines.filter(({ id }) => id !== "orders");

/** The words of a line as a shell reads them. */
function wordsOf(line: string): string[] {
  return [...line.matchAll(/'([^']*)'|"([^"]*)"|([^\s'"]+)/g)].map(
    ([, single, double, bare]) => single ?? double?.replace("$SERVICE_KEY", "service-key-1") ?? bare ?? "",
  );
}

const seen: { path: string | undefined; type: string | undefined; body: unknown }[] = [];
let standIn: StandIn;
const server = await serveHttp(async (request, response) => {
  const body = await bodyOf(request);
  seen.push({ path: request.url, type: request.headers["content-type"], body: JSON.parse(body) });
  await answerAs(standIn, { request, body, response });
});
const { origin } = new URL(server.backend.url);
const keyrun = closedAtEnd(await startKeyrun());
await keyrun.teams.updateTeam({
  team: { id: "demo", plan: Plan.ENTERPRISE },
  updateMask: { paths: ["plan"] },
});
const key = await keyrun.newKey("demo");
afterAll(() => server[Symbol.asyncDispose]());
beforeEach(() => void seen.splice(0));

/** The README's server wants no key. */
const standInFor = ({ page, id }: (typeof lines)[number]) =>
  page === "README.md" ? { ...standIns[id]!, header: standIns.joke!.header } : standIns[id]!;

const command = (args: readonly string[]) =>
  runCommand(args, { env: { KEYRUN_DATA_DIR: keyrun.config.dataDir } });

/** Makes the app as the page says, at the stand-in's own port. */
async function createApp({ id, args }: Pick<(typeof lines)[number], "id" | "args">): Promise<string> {
  await keyrun.apps.deleteApp({ appId: id }).catch(() => {});
  const url = args.indexOf("--url") + 1;
  const { pathname } = new URL(args[url] ?? "");
  const created = await command(args.with(url, `${origin}${pathname}`));
  expect(created).toMatchObject({ code: 0, stderr: "" });
  return id;
}

/** The same line with a header that its service does not take. */
function withWrongKey({ id, args }: (typeof lines)[number]) {
  if (!args.includes("--header")) return { id, args: [...args, "--header", "accept: text/wrong"] };
  return { id, args: args.map((word) => word.replace("service-key-1", "wrong-key-1")) };
}

async function post(appId: string, method: "run" | "stream", text: string, input?: object) {
  return await fetch(`${keyrun.publicUrl}/api/apps/${appId}/${method}`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${key.value}`,
      "content-type": "application/json",
      accept: method === "run" ? "application/json" : "application/x-ndjson",
    },
    body: JSON.stringify({ text, input }),
  });
}

/** The messages of a stream between its first and its last one, as texts, and the last one. */
async function streamed(appId: string, text: string) {
  const messages = (await (await post(appId, "stream", text)).text()).trimEnd().split("\n");
  const [, ...rest] = messages.map((line) => JSON.parse(line));
  const last = rest.pop();
  return { text: rest.map(({ delta }) => delta.text).join(""), last };
}

test("the pages have a line for each stand-in, and no other", () => {
  expect(new Set(lines.map(({ id }) => id))).toEqual(new Set(Object.keys(standIns)));
});

describe.each(lines)("the line of $page for $id", (line) => {
  beforeEach(() => {
    standIn = standInFor(line);
  });

  test("sends what the service takes, and runs", async () => {
    const id = await createApp(line);
    const answer = await post(id, "run", "hello");
    expect(await answer.json()).toMatchObject({ text: words.join("") });
    const body = standIn.sent("hello", false);
    expect(seen).toEqual([{ path: standIn.path, type: "application/json", body }]);
  });

  test("streams, or answers a stream whole", async () => {
    const id = await createApp(line);
    const { text, last } = await streamed(id, "hello");
    expect({ text, last }).toEqual({ text: words.join(""), last: { end: {} } });
    expect(seen.map(({ body }) => body)).toEqual([standIn.sent("hello", true)]);
    if (!standIn.streams) return;
    const broken = await streamed(id, "break");
    expect(broken.text).toBe(words.join(""));
    expect(broken.last).toMatchObject({ error: { code: "app_failed" } });
  });

  test("gives callers the service's own words where it refuses, in a stream, too", async () => {
    const id = await createApp(line);
    const { words: said } = standIn.refusal;
    for (const method of ["run", "stream"] as const) {
      const answer = await post(id, method, "refuse");
      const { error } = (await answer.json()) as { error: { code: string; message: string } };
      expect(error.code).toBe(said === undefined ? "app_failed" : "app_refused");
      if (said !== undefined) expect(error.message).toBe(said);
    }
  });

  test("is app_failed where the service does not take its key, with no word of the service", async () => {
    const id = await createApp(withWrongKey(line));
    const answer = await post(id, "run", "hello");
    const text = await answer.text();
    expect(JSON.parse(text)).toMatchObject({ error: { code: "app_failed" } });
    for (const word of Object.values(standIn.unauthorized.body)) expect(text).not.toContain(String(word));
  });

  test("works with apps check", async () => {
    const id = await createApp(line);
    expect(await command(["apps", "check", id])).toMatchObject({ code: 0, stderr: "" });
  });
});

test("the page's line for a service of JSON alone sends the caller's, and gives its answer as JSON", async () => {
  const line = allLines.find(({ id }) => id === "orders")!;
  standIn = {
    ...standIns.n8n!,
    textIn: JSON.stringify,
    answer: (response) => response.end('{"total":[1,2]}'),
  };
  const id = await createApp(line);
  const input = { customer: { id: 7 }, lines: [] };
  expect(await (await post(id, "run", "", input)).json()).toMatchObject({ output: { total: [1, 2] } });
  expect(seen).toEqual([{ path: "/webhook/orders", type: "application/json", body: input }]);
  const { error } = (await (await post(id, "run", "hello")).json()) as { error: { message: string } };
  expect(error.message).toContain("input is required");
});

test("Dify's variables may be the caller's JSON, beside the text", async () => {
  const line = lines.find(({ id }) => id === "dify")!;
  standIn = standIns.dify!;
  const id = await createApp({
    id: line.id,
    args: line.args.map((word) => word.replace('"inputs":{}', '"inputs":"$input"')),
  });
  const answer = await post(id, "run", "hello", { city: "Oslo" });
  expect(await answer.json()).toMatchObject({ text: words.join("") });
  expect(seen.map(({ body }) => body)).toEqual([
    { ...(standIn.sent("hello", false) as object), inputs: { city: "Oslo" } },
  ]);
});

test("what a pointer missed is in the log alone, and the key of the service in neither, nor in apps show", async () => {
  const line = lines.find(({ id }) => id === "flowise")!;
  standIn = standInFor(line);
  const id = await createApp({ id: line.id, args: line.args.with(line.args.indexOf("/text"), "/answer/0") });
  const answer = await post(id, "run", "hello");
  const text = await answer.text();
  expect(JSON.parse(text)).toMatchObject({ error: { code: "app_failed" } });
  expect(text).not.toContain("/answer");
  const logged = keyrun.logLines.filter((one) => one.includes(answer.headers.get("x-request-id") ?? "-"));
  expect(logged.map((one) => JSON.parse(one).cause)).toEqual([
    "The answer has no string at /answer/0 (text_at): there is no /answer.",
  ]);
  const shown = await command(["apps", "show", id, "--json"]);
  const { request, textAt } = JSON.parse(shown.stdout).app.backend.http;
  expect({ request, textAt }).toEqual({
    request: '{"question":"$text","streaming":"$stream"}',
    textAt: "/answer/0",
  });
  expect(keyrun.logLines.join("") + shown.stdout + text).not.toContain("service-key-1");
});

test("the stand-in of OpenAI's format is one to OpenAI's own client", async () => {
  standIn = standIns.chat!;
  const client = new OpenAI({ baseURL: `${origin}/v1`, apiKey: "service-key-1", maxRetries: 0 });
  const asked = { model: "llama3.2", messages: [{ role: "user" as const, content: "hello" }] };
  const answer = await client.chat.completions.create({ ...asked, stream: false });
  expect(answer.choices[0]?.message.content).toBe(words.join(""));
  let text = "";
  for await (const chunk of await client.chat.completions.create({ ...asked, stream: true })) {
    text += chunk.choices[0]?.delta.content ?? "";
  }
  expect(text).toBe(words.join(""));
  const refused = client.chat.completions.create({
    ...asked,
    messages: [{ role: "user", content: "refuse" }],
  });
  await expect(refused).rejects.toThrow("Invalid value.");
});

test("the README's curl runs the app of its line", async () => {
  const readme = readFileSync(join(repository, "README.md"), "utf8");
  const [, path = "", body = ""] =
    /curl -sS (\S*\/api\/apps\/chat\/run)[\s\S]*?-d '([^']*)'/.exec(readme) ?? [];
  const line = lines.find(({ page }) => page === "README.md")!;
  standIn = standInFor(line);
  await createApp(line);
  const answer = await post("chat", "run", JSON.parse(body).text);
  expect(new URL(path).pathname).toBe("/api/apps/chat/run");
  expect(await answer.json()).toMatchObject({ appId: "chat", text: words.join("") });
});
