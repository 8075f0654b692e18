import type { GetUsageResponseJson, UsagePointJson } from "#gen/keyrun/v1/key_service_pb.ts";
import { systemClock } from "../base/clock.ts";
import { wrongUse } from "./command-failure.ts";
import { type Column, printTable, type Row, timeCell } from "./table.ts";
import { chooseTeam } from "./team-choice.ts";
import { answer, type Terminal } from "./terminal.ts";
import { readSpan } from "./time-options.ts";
import type { UsageOptions } from "./usage-command.ts";

export async function showUsage(terminal: Terminal, options: UsageOptions): Promise<void> {
  const sinceMs = readSpan(options.since, "--since");
  const keyId = options.key === undefined ? "" : readKeyId(options.key);
  const isByDay = (options.step ?? (sinceMs > hourlyMsMax ? "day" : "hour")) === "day";
  const { keys } = await terminal.server();
  const teamId = await chooseTeam(terminal, options.team);
  const endMs = systemClock.unixMs();
  const message: GetUsageResponseJson = await keys.getUsage({
    ...{ teamId, keyId, step: isByDay ? "USAGE_STEP_DAY" : "USAGE_STEP_HOUR" },
    startTime: new Date(endMs - sinceMs).toISOString(),
    endTime: new Date(endMs).toISOString(),
  });
  await answer(terminal, options, message, () => printUsage(terminal, message, isByDay));
}

/** By default, a longer time is told by day. */
const hourlyMsMax = 2 * 86_400_000;

// Also after the prefix. A whole key counts as its id.
const idForm = /^(?:[a-z][a-z0-9]{0,11}_)?([0-9a-z]{24})(?:\..*)?$/is;

function readKeyId(text: string): string {
  const id = idForm.exec(text.trim())?.[1];
  if (id !== undefined) return id.toLowerCase();
  // The text may be a part of a key, so it is not repeated.
  throw wrongUse("--key must be the id of a key, which `./keyrun keys list` shows.");
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
  const total = {
    ...{ start: undefined, accepted: sum("accepted"), limited: sum("limited") },
    ...{ failed: sum("failed"), appSeconds: sum("appSeconds") },
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
  ...["ACCEPTED", "LIMITED", "FAILED", "APP TIME"].map((head) => ({ head })),
  { head: "", spare: true },
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
