/** `audit`: the events of the audit log as a table, or line by line as they come. */

import { setTimeout } from "node:timers/promises";
import type { Command } from "commander";
import type { AuditEventJson } from "#gen/keyrun/v1/audit_event_pb.ts";
import { type Clock, systemClock } from "../base/clock.ts";
import { readSpan, rpcCommand } from "./command-words.ts";
import { wholeList } from "./lists.ts";
import { printTable, type Row, timeCell } from "./table.ts";
import { type JsonOption, printable, printableJson, type Terminal } from "./terminal.ts";

/** `audit`. */
export function addAuditCommand(program: Command, terminal: Terminal): void {
  rpcCommand(program, "audit", {
    does: "Show who changed what, newest last, and what was refused.",
    examples: ["audit --team demo --since 7d", "audit --action key.revoke --json", "audit --follow"],
    table: true,
  })
    .option("--team <team_id>", "only what is about this team")
    .option("--actor <name>", "only what this member or service did, by its whole name")
    .option("--action <action>", "only this action, such as key.revoke")
    .option("--target <id>", "only what was done to this key, member, app or service token, by its whole id")
    .option("--since <time>", "only the last days, hours or minutes, like 7d, 12h or 30m (default: 1d)")
    .option("--follow", "go on, and show each event as it comes, until Ctrl-C")
    .action((options: AuditOptions) => listEvents(terminal, options));
}

interface AuditOptions extends JsonOption {
  team?: string;
  actor?: string;
  action?: string;
  target?: string;
  since?: string;
  follow?: boolean;
}

/** The time of `--follow`, which a test gives. */
export interface FollowTime extends Pick<Clock, "unixMs"> {
  wait(ms: number): Promise<unknown>;
}

const realTime: FollowTime = { unixMs: systemClock.unixMs, wait: setTimeout };

/** Prints the events, newest last, as a log is read. With `--follow`, never ends by itself. */
export async function listEvents(
  terminal: Terminal,
  options: AuditOptions,
  time: FollowTime = realTime,
): Promise<void> {
  const sinceMs = time.unixMs() - readSpan(options.since ?? "1d", "--since");
  if (options.follow) return follow(terminal, options, { sinceMs, time });
  const events = await eventsSince(terminal, options, sinceMs);
  if (options.json) return terminal.print(printableJson({ events, nextPageToken: "" }));
  await printTable(terminal, columns, events.map(rowOf));
}

async function eventsSince(
  terminal: Terminal,
  { team = "", actor = "", action = "", target }: AuditOptions,
  sinceMs: number,
): Promise<AuditEventJson[]> {
  const { audit } = await terminal.server();
  const startTime = new Date(sinceMs).toISOString();
  const request = { teamId: team, actor, action, targets: target === undefined ? [] : [target], startTime };
  const { events } = await wholeList("events", (page) => audit.listEvents({ ...request, ...page }));
  return events.reverse();
}

/** How often `--follow` asks for new events. */
const followMs = 1_000;
/** How far back it reads: joined attempts are written after their minute. */
const lookBackMs = 5 * 60_000;
/** Once in so many reads it reads further back: `attempts.more` is written after its hour. */
const readsPerFarRead = 60;
const farBackMs = 65 * 60_000;

/**
 * A line for each event, as a whole or as a JSON object, so that other programs can read them. One
 * that is written late comes late, and none is older than `sinceMs`.
 */
async function follow(
  terminal: Terminal,
  options: AuditOptions,
  { sinceMs, time }: { readonly sinceMs: number; readonly time: FollowTime },
): Promise<never> {
  let shown = new Map<string, string>();
  for (let reads = 0; ; reads++) {
    const isFar = reads % readsPerFarRead === 0;
    const backMs = isFar ? farBackMs : lookBackMs;
    const fromMs = reads === 0 ? sinceMs : Math.max(sinceMs, time.unixMs() - backMs);
    const found = await eventsSince(terminal, options, fromMs);
    for (const event of found) {
      // One that was unknown is shown again once it is known what became of it.
      if (shown.get(event.id ?? "") !== outcomeWords(event))
        terminal.print(options.json ? jsonLine(event) : lineOf(event));
    }
    // What is older than a far read can't come again.
    if (isFar) shown = new Map();
    for (const event of found) shown.set(event.id ?? "", outcomeWords(event));
    await time.wait(followMs);
  }
}

const columns = [
  { head: "TIME" },
  { head: "ACTOR", least: 10 },
  { head: "ACTION" },
  { head: "TEAM", spare: 4 },
  { head: "TARGET", spare: 5 },
  { head: "OUTCOME" },
  { head: "ADDRESS", spare: 2 },
  { head: "THROUGH", spare: 1 },
  { head: "DETAIL", spare: 3 },
] as const;

function rowOf(event: AuditEventJson): Row {
  const cells = [
    timeCell(event.time),
    event.actor ?? "",
    event.action ?? "",
    event.teamId || "-",
    event.target || "-",
    outcomeWords(event),
    event.address || "-",
    channelWords[event.channel ?? ""] ?? "-",
    event.detail || "-",
  ];
  return { cells, faint: event.outcome === "AUDIT_OUTCOME_REFUSED" };
}

const channelWords: Readonly<Record<string, string>> = {
  AUDIT_CHANNEL_SCREEN: "screen",
  AUDIT_CHANNEL_COMMAND_LINE: "command line",
  AUDIT_CHANNEL_RPC: "RPC",
};

function outcomeWords({ outcome, reason = "", count = 1 }: AuditEventJson): string {
  const times = count === 1 ? "" : ` (${count} times)`;
  if (outcome === "AUDIT_OUTCOME_REFUSED") return `refused ${reason}`.trim() + times;
  return (outcome === "AUDIT_OUTCOME_UNKNOWN" ? `unknown ${reason}`.trim() : "done") + times;
}

function lineOf(event: AuditEventJson): string {
  const texts = rowOf(event).cells.map((cell) => (typeof cell === "string" ? cell : cell.full));
  return texts.map(printable).join("  ");
}

/** A line feed in a text is escaped, so each that is there stands between two members. */
function jsonLine(event: AuditEventJson): string {
  return printableJson(event).replaceAll(/\n */g, " ");
}
