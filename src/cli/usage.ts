/** `usage`: how keys were used, as a table with a bar for each hour or day. */

import { type Command, Option } from "commander";
import type { GetUsageResponseJson, UsagePointJson } from "#gen/keyrun/v1/key_service_pb.ts";
import { systemClock } from "../base/clock.ts";
import { programName } from "./called.ts";
import { readSpan, rpcCommand, type TeamOption } from "./command-words.ts";
import { wrongUse } from "./failures.ts";
import { keyIdIn } from "./key-name.ts";
import { chooseTeam } from "./lists.ts";
import { type Column, printTable, type Row, timeCell } from "./table.ts";
import { answer, type Terminal } from "./terminal.ts";

/** `usage`. */
export function addUsageCommand(program: Command, terminal: Terminal): void {
  rpcCommand(program, "usage", {
    does: "Show how a team's keys, or one of them, were used: by hour, or by day of UTC.",
    examples: ["usage --team demo", "usage --team demo --key 7k3f0m9x2a4c6e8g1j5n7p9q --since 30d --json"],
    table: true,
  })
    .option("--team <team_id>", "the team (default: the only one)")
    .option("--key <key_id>", "only this key")
    .option("--since <time>", "how far back, like 7d or 12h", "24h")
    .addOption(
      new Option("--step <step>", "how long each line is; without it, an hour up to 2 days back").choices([
        "hour",
        "day",
      ]),
    )
    .action((options: UsageOptions) => showUsage(terminal, options));
}

interface UsageOptions extends TeamOption {
  key?: string;
  since: string;
  step?: "hour" | "day";
}

async function showUsage(terminal: Terminal, options: UsageOptions): Promise<void> {
  const sinceMs = readSpan(options.since, "--since");
  const keyId = options.key === undefined ? "" : readKeyId(options.key);
  const isByDay = (options.step ?? (sinceMs > hourlyMsMax ? "day" : "hour")) === "day";
  const { keys } = await terminal.server();
  const teamId = await chooseTeam(terminal, options.team);
  const endMs = systemClock.unixMs();
  const message: GetUsageResponseJson = await keys.getUsage({
    teamId,
    keyId,
    step: isByDay ? "USAGE_STEP_DAY" : "USAGE_STEP_HOUR",
    startTime: new Date(endMs - sinceMs).toISOString(),
    endTime: new Date(endMs).toISOString(),
  });
  await answer(terminal, options, message, () => printUsage(terminal, message, isByDay));
}

/** By default, a longer time is told by day. */
const hourlyMsMax = 2 * 86_400_000;

function readKeyId(text: string): string {
  const id = keyIdIn(text);
  if (id !== undefined) return id;
  // The text may be a part of a key, so it is not repeated.
  throw wrongUse(`--key must be the id of a key, which \`${programName} keys list\` shows.`);
}

interface Counts {
  readonly start: string | undefined;
  readonly accepted: number;
  readonly limited: number;
  readonly failed: number;
  readonly appSeconds: number;
}

/** A step without a request has no line. */
async function printUsage(
  terminal: Terminal,
  { points = [] }: GetUsageResponseJson,
  isByDay: boolean,
): Promise<void> {
  const all = points.map(countsOf);
  const used = all.filter(({ accepted, limited, failed }) => accepted + limited + failed > 0);
  if (used.length === 0) {
    terminal.print(`No requests since ${startWords(all[0]?.start, isByDay)}.`);
    return;
  }
  const sum = (name: Exclude<keyof Counts, "start">) => used.reduce((total, each) => total + each[name], 0);
  const total: Counts = {
    start: undefined,
    accepted: sum("accepted"),
    limited: sum("limited"),
    failed: sum("failed"),
    appSeconds: sum("appSeconds"),
  };
  const most = Math.max(...used.map(requestsOf));
  const barOf = (each: Counts) => "█".repeat(Math.ceil((requestsOf(each) / most) * barCharacters));
  const rows = [
    ...used.map((each): Row => {
      const start = isByDay ? startWords(each.start, true) : timeCell(each.start);
      return { cells: [start, ...numbersOf(each, total), barOf(each)] };
    }),
    { cells: ["TOTAL", ...numbersOf(total, total)] },
  ];
  await printTable(terminal, columns(isByDay), rows);
}

const barCharacters = 20;

const columns = (isByDay: boolean): Column[] => [
  { head: isByDay ? "DAY (UTC)" : "HOUR" },
  ...["ACCEPTED", "LIMITED"].map((head) => ({ head })),
  { head: "FAILED", spare: 3 },
  { head: "APP TIME", spare: 2 },
  { head: "", spare: 1 },
];

function countsOf(point: UsagePointJson): Counts {
  const { startTime, acceptedCount = "0", limitedCount = "0", failedCount = "0", appDuration = "0s" } = point;
  return {
    start: startTime,
    accepted: Number(acceptedCount),
    limited: Number(limitedCount),
    failed: Number(failedCount),
    appSeconds: Number(appDuration.replace(/s$/, "")),
  };
}

function requestsOf({ accepted, limited }: Counts): number {
  return accepted + limited;
}

/** The numbers as words that end below each other. */
function numbersOf(counts: Counts, total: Counts): string[] {
  const wordsOf = ({ accepted, limited, failed, appSeconds }: Counts) => [
    ...[accepted, limited, failed].map(String),
    `${appSeconds.toFixed(1)} s`,
  ];
  const widest = wordsOf(total);
  return wordsOf(counts).map((words, place) => words.padStart(widest[place]?.length ?? 0));
}

function startWords(start = "", isByDay: boolean): string {
  return isByDay ? start.slice(0, 10) : start;
}
