/**
 * `run`, `runs …` and `limit`: what a program of a team does with its API key, from the shell. They
 * are clients of the public listener, where the other commands are those of the internal one.
 */

import type { JsonValue } from "@bufbuild/protobuf";
import { type Command, Option } from "commander";
import type { RunJson } from "#gen/keyrun/v1/run_pb.ts";
import type { RunAppResponseJson } from "#gen/keyrun/v1/run_service_pb.ts";
import { programName } from "./called.ts";
import { type CommandWords, commandGroup, rpcCommand } from "./command-words.ts";
import { CommandFailure, wrongUse } from "./failures.ts";
import { inputBytesMax, readInputFile } from "./input-file.ts";
import { wholeList } from "./lists.ts";
import { type Column, printTable, timeCell, timeWords } from "./table.ts";
import { answer, type CliWorld, type JsonOption, printableJson, type Terminal } from "./terminal.ts";

/** `run`, `runs list | show | cancel` and `limit`. */
export function addRunCommands(program: Command, terminal: Terminal, world: CliWorld): void {
  keyCommand(program, "run", {
    does: "Run an app, and print its text, or its JSON where it gives no text.",
    examples: [
      "run echo hello",
      "run echo - < question.txt",
      "run echo --stream hello",
      "run echo --background hello",
      "run echo --input order.json --output json",
    ],
  })
    .argument("<app_id>", "the app")
    .argument("[text]", "the app's input; without it, or with -, standard input, as it is")
    .option("--input <file>", "the app's input as a JSON object; - is standard input. Then no text is needed")
    .addOption(outputOption())
    .option("--stream", "print the text piece by piece, as it comes; with --json, a message a line")
    .option("--background", "don't wait: print the run's id, for `runs show`")
    .option("--idempotency-key <key>", "your own name of the run: with it, a repeat starts no second one")
    .action((appId: string, text: string | undefined, options: RunOptions) =>
      runApp(terminal, world, { ...options, appId, text }),
    );

  const runs = commandGroup(program, "runs", {
    does: "See and end the team's runs in the background.",
    examples: ["runs list", "runs show run_1fv0j56qgf3zjgkfrwasendm --wait 30s"],
  });

  keyCommand(runs, "list", {
    does: "List the runs in the background that are kept: the newest 100.",
    examples: ["runs list", "runs list --all --json"],
    table: true,
  })
    .option("--all", "list all of them; each 100 take one of the limit")
    .action((options: ListOptions) => listRuns(terminal, world, options));

  keyCommand(runs, "show", {
    does: "Print the text of a run, or its JSON where it has no text. Exit 0: it succeeded, 1: it failed or was cancelled, 3: it goes on.",
    examples: [`runs show ${runIdExample}`, `runs show ${runIdExample} --wait 30s`],
  })
    .argument("<run_id>", "the run")
    .addOption(outputOption())
    .option("--wait <time>", `wait for its end, from 1s to ${waitSecondsMax}s`)
    .action((runId: string, options: ShowOptions) => showRun(terminal, world, { ...options, runId }));

  keyCommand(runs, "cancel", { does: "End a run.", examples: [`runs cancel ${runIdExample}`] })
    .argument("<run_id>", "the run")
    .action((runId: string, options: JsonOption) => cancelRun(terminal, world, { ...options, runId }));

  keyCommand(program, "limit", {
    does: "Show what is left of the key's limits. Where no service token is at hand, or KEYRUN_URL is set, asking takes one.",
    examples: ["limit"],
    table: true,
  }).action(async (options: JsonOption) => {
    const { showLimit } = await import("./limit.ts");
    await showLimit(world, terminal, options);
  });
}

/** A command that calls the public listener. */
function keyCommand(parent: Command, usage: string, { does, ...words }: CommandWords): Command {
  const whole = `${does} With the key in KEYRUN_API_KEY, at KEYRUN_URL (default: Keyrun on this machine).`;
  return rpcCommand(parent, usage, { ...words, does: whole }).summary(does);
}

const runIdExample = "run_1fv0j56qgf3zjgkfrwasendm";

/** Loads the client of the public listener, and opens it. */
async function open(world: CliWorld) {
  const { accepted, openPublicApi, runWaitMs } = await import("./public-api.ts");
  return { accepted, runWaitMs, api: openPublicApi(world) };
}

function outputOption(): Option {
  return new Option("--output <form>", "print the app's output as JSON alone").choices(["json"]);
}

interface OutputOption extends JsonOption {
  readonly output?: "json";
}

interface Output {
  readonly text?: string;
  readonly output?: JsonValue;
}

/** What is printed of an output: the text, or the JSON where there is none or it was asked for. */
function printable({ text, output }: Output, asked: OutputOption): string {
  if (text !== undefined && asked.output === undefined) return text;
  if (output !== undefined) return `${printableJson(output)}\n`;
  throw new CommandFailure("The app gave a text and no JSON: leave out --output.");
}

function refuseTwoForms({ json, output }: OutputOption): void {
  if (json && output !== undefined) throw wrongUse("Give --json or --output, not both.");
}

interface RunOptions extends OutputOption {
  readonly input?: string;
  readonly stream?: boolean;
  readonly background?: boolean;
  readonly idempotencyKey?: string;
}

interface RunCall extends RunOptions {
  readonly appId: string;
  readonly text: string | undefined;
}

async function runApp(terminal: Terminal, world: CliWorld, call: RunCall): Promise<void> {
  const { stream, background, idempotencyKey } = call;
  refuseTwoForms(call);
  if (background && call.output !== undefined) {
    throw wrongUse("A run in the background prints its id: give --output to `runs show`.");
  }
  if (stream && background) throw wrongUse("Give --stream or --background, not both.");
  if (stream && idempotencyKey !== undefined) throw wrongUse("A stream takes no --idempotency-key.");
  if (idempotencyKey !== undefined && !/^[!-~]{1,255}$/.test(idempotencyKey)) {
    throw wrongUse("--idempotency-key must be 1 to 255 characters of ASCII, without spaces.");
  }
  // What has not the form of an id may be a key, which does not belong into a path.
  if (!/^[a-z0-9-]{1,64}$/i.test(call.appId)) throw wrongUse("<app_id> must be the id of an app.");
  const { api, accepted, runWaitMs } = await open(world);
  const request = {
    method: "POST",
    path: `/api/apps/${call.appId}/${stream ? "stream" : "run"}`,
    body: await bodyOf(terminal, world, call),
    headers: {
      ...(background && { prefer: "respond-async" }),
      ...(idempotencyKey !== undefined && { "idempotency-key": idempotencyKey }),
    },
    waitMs: runWaitMs,
  } as const;
  if (stream) return printStream(terminal, api.stream(request), call);
  const { status, message } = accepted(await api.ask(request));
  if (status === 202) return answer(terminal, call, message, () => printStarted(terminal, message));
  const output: RunAppResponseJson = message;
  await answer(terminal, call, message, () => terminal.writeText([printable(output, call)]));
  // A repeat of a run that has ended, or a Keyrun that keeps no runs.
  if (background) terminal.note("It has ended: this is its output, and nothing goes on in the background.");
}

/** The body of the request: the input is sent as it is written. */
async function bodyOf(terminal: Terminal, world: CliWorld, { text, input }: RunCall): Promise<string> {
  if (input === undefined) return JSON.stringify({ text: await readInput(terminal, world, text) });
  if (text === "-" && input === "-") throw wrongUse("Only one of <text> and --input can be standard input.");
  const given = text === undefined ? "" : `"text":${JSON.stringify(await readInput(terminal, world, text))},`;
  return `{${given}"input":${await readInputFile(terminal, world, input)}}`;
}

/** The text that the command was given, or standard input. */
async function readInput(terminal: Terminal, { stdin }: CliWorld, text: string | undefined): Promise<string> {
  if (text !== undefined && text !== "-") return text;
  // A person who forgot the text would wait for an answer, and the command for the text.
  if (text === undefined && stdin.isTTY) {
    throw wrongUse("Say what to send: a text, or - to type it here until Ctrl-D.");
  }
  return terminal.readText(inputBytesMax);
}

interface StreamMessage {
  readonly delta?: { readonly text?: string };
  readonly output?: JsonValue;
}

async function printStream(
  terminal: Terminal,
  messages: AsyncIterable<StreamMessage>,
  options: OutputOption,
): Promise<void> {
  async function* pieces() {
    let hasText = false;
    let output: JsonValue | undefined;
    for await (const message of messages) {
      if (options.json) yield `${printableJson(message, 0)}\n`;
      else if (message.output !== undefined) output = message.output;
      else if (message.delta && !options.output) {
        hasText = true;
        yield message.delta.text;
      }
    }
    if (!options.json && !hasText) yield printable(output === undefined ? { text: "" } : { output }, options);
  }
  await terminal.writeText(pieces());
}

function printStarted(terminal: Terminal, { runId = "" }: RunJson): void {
  terminal.print(runId);
  terminal.note(
    `It runs in the background. \`${programName} runs show ${runId} --wait 30s\` prints its output, and \`${programName} runs cancel ${runId}\` ends it.`,
  );
}

interface ListOptions extends JsonOption {
  readonly all?: boolean;
}

async function listRuns(terminal: Terminal, world: CliWorld, options: ListOptions): Promise<void> {
  const { api, accepted } = await open(world);
  const page = async ({ pageSize, pageToken }: { pageSize: number; pageToken: string }) => {
    const token = pageToken === "" ? {} : { page_token: pageToken };
    const query = new URLSearchParams({ page_size: String(pageSize), ...token });
    const { message } = accepted(await api.ask({ method: "GET", path: `/api/runs?${query}` }));
    return message as { readonly runs?: RunJson[]; readonly nextPageToken?: string };
  };
  const list = await (options.all ? wholeList("runs", page) : page({ pageSize: 100, pageToken: "" }));
  await answer(terminal, options, list, () =>
    printTable(
      terminal,
      columns,
      (list.runs ?? []).map((run) => ({ cells: cellsOf(run), faint: run.state !== running })),
    ),
  );
  if (list.nextPageToken) terminal.note("There are older ones: --all lists them, too.");
}

const columns: Column[] = [
  { head: "ID" },
  { head: "APP", least: 8 },
  { head: "STATE" },
  { head: "STARTED", spare: 4 },
  { head: "ENDED", spare: 3 },
  { head: "KEPT UNTIL", spare: 2 },
  { head: "KEY", spare: 1 },
];

function cellsOf({ runId = "", appId = "", keyId = "", ...run }: RunJson) {
  const times = [run.createTime, run.endTime, run.expireTime].map((time) => timeCell(time));
  return [runId, appId, stateWord(run), ...times, keyId || "-"];
}

const running = "RUN_STATE_RUNNING";

function stateWord({ state = "RUN_STATE_UNSPECIFIED" }: RunJson): string {
  return state.replace(/^RUN_STATE_/, "").toLowerCase();
}

interface ShowOptions extends OutputOption {
  readonly wait?: string;
}

async function showRun(
  terminal: Terminal,
  world: CliWorld,
  { runId, wait, ...options }: ShowOptions & { readonly runId: string },
): Promise<void> {
  refuseTwoForms(options);
  const path = pathOf(runId);
  const waitSeconds = wait === undefined ? 0 : readWait(wait);
  const { api, accepted } = await open(world);
  const headers = waitSeconds === 0 ? {} : waitHeader(waitSeconds);
  const asked = { method: "GET", path, headers, waitMs: waitSeconds * 1_000 } as const;
  const run: RunJson = accepted(await api.ask(asked)).message;
  terminal.endWith(run.state === running ? 3 : hasOutput(run) ? 0 : 1);
  await answer(terminal, options, run, () => printRun(terminal, run, options));
}

function hasOutput({ text, output }: RunJson): boolean {
  return text !== undefined || output !== undefined;
}

async function printRun(terminal: Terminal, run: RunJson, options: OutputOption): Promise<void> {
  const { runId, error, createTime = "-", endTime = "-" } = run;
  if (hasOutput(run)) return terminal.writeText([printable(run, options)]);
  if (run.state === running) return terminal.note(`Run ${runId} goes on, since ${timeWords(createTime)}.`);
  const why = run.textDropped ? "Its output is not kept any more: newer ones took its room." : error?.message;
  terminal.note(`Run ${runId} ${endWords(run)} at ${timeWords(endTime)}. ${why ?? ""}`.trim());
}

function endWords(run: RunJson): string {
  return run.state === "RUN_STATE_CANCELLED" ? "was cancelled" : stateWord(run);
}

async function cancelRun(
  terminal: Terminal,
  world: CliWorld,
  { runId, ...options }: JsonOption & { readonly runId: string },
): Promise<void> {
  const path = `${pathOf(runId)}/cancel`;
  const { api, accepted } = await open(world);
  const run: RunJson = accepted(await api.ask({ method: "POST", path, body: "{}" })).message;
  // One that had ended before keeps its end.
  await answer(terminal, options, run, () =>
    terminal.print(`Run ${runId} ${endWords(run)} at ${timeWords(run.endTime ?? "-")}.`),
  );
}

/** Refuses what has not the form of an id, and does not repeat it: it may be a key. */
function pathOf(runId: string): string {
  if (/^run_[0-9a-z]{1,64}$/.test(runId)) return `/api/runs/${runId}`;
  throw wrongUse(
    `<run_id> must be the id of a run, which begins with run_. \`${programName} runs list\` shows them.`,
  );
}

const waitSecondsMax = 50;

function readWait(text: string): number {
  const seconds = /^\d{1,2}s$/.test(text) ? Number.parseInt(text, 10) : 0;
  if (seconds >= 1 && seconds <= waitSecondsMax) return seconds;
  throw wrongUse(`--wait must be a number of seconds and its unit s, like 30s, at most ${waitSecondsMax}s.`);
}

/** How a request for a run says how long to wait for its end (RFC 7240). */
function waitHeader(seconds: number) {
  return { prefer: `wait=${seconds}` };
}
