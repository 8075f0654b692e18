import type { KeyJson } from "#gen/keyrun/v1/key_pb.ts";
import { systemClock } from "../clock.ts";
import { wrongUse } from "./command-failure.ts";
import type { TeamOption } from "./key-commands.ts";
import { allPages, pageSize } from "./pages.ts";
import { type Column, printTable, type Row, timeCell } from "./table.ts";
import { chooseTeam } from "./team-choice.ts";
import { answer, type Terminal } from "./terminal.ts";

export interface ListOptions extends TeamOption {
  revoked?: boolean;
  search?: string;
  unusedFor?: string;
}

export async function listKeys(terminal: Terminal, options: ListOptions): Promise<void> {
  const unusedMs = options.unusedFor === undefined ? undefined : readTime(options.unusedFor);
  const { keys: client } = await terminal.server();
  const teamId = await chooseTeam(terminal, options.team);
  const request = {
    teamId,
    pageSize,
    showRevoked: options.revoked ?? false,
    query: options.search ?? "",
  };
  const pages = await allPages((pageToken) => client.listKeys({ ...request, pageToken }));
  const all = pages.flatMap((page) => page.keys ?? []);
  const keys = unusedMs === undefined ? all : unusedSince(systemClock.unixMs() - unusedMs, all);
  const message = { ...pages[0], keys, nextPageToken: "" };
  await answer(terminal, options, message, async () => {
    await printTable(terminal, columnsFor(options), keys.map(rowOf));
    const { activeKeyCount = 0, activeKeyCountMax = 0 } = message;
    terminal.note(`${activeKeyCount} of at most ${activeKeyCountMax} active keys.`);
  });
}

const dayMs = 86_400_000;
const unitMs: Readonly<Record<string, number>> = { d: dayMs, h: dayMs / 24, m: dayMs / 24 / 60 };

function readTime(text: string): number {
  const [, digits, unit = ""] = /^(\d{1,5})([dhm])$/.exec(text) ?? [];
  const ms = Number(digits) * (unitMs[unit] ?? Number.NaN);
  if (ms > 0) return ms;
  throw wrongUse("--unused-for must be a number of days, hours or minutes, like 90d, 12h or 30m.");
}

/** A key that was never used counts from its creation. */
function unusedSince(unixMs: number, keys: readonly KeyJson[]): KeyJson[] {
  return keys.filter(({ state, lastUseTime, createTime = "" }) => {
    return state === "KEY_STATE_ACTIVE" && Date.parse(lastUseTime ?? createTime) <= unixMs;
  });
}

function columnsFor({ revoked }: ListOptions): Column[] {
  return [
    { head: "LABEL", least: 12 },
    { head: "KEY" },
    { head: "ID", spare: true },
    { head: "CREATED" },
    { head: "BY", least: 10, ...(revoked && { spare: true }) },
    { head: "LAST USED" },
    ...(revoked ? [{ head: "REVOKED" }, { head: "BY", least: 10 }] : []),
  ];
}

function rowOf(key: KeyJson): Row {
  const isRevoked = key.state === "KEY_STATE_REVOKED";
  const cells = [
    key.label || "-",
    key.redactedValue ?? "",
    key.id ?? "",
    timeCell(key.createTime),
    key.createdBy || "-",
    timeCell(key.lastUseTime, "never"),
    isRevoked ? timeCell(key.revokeTime) : "",
    key.revokedBy ?? "",
  ];
  return { cells, faint: isRevoked };
}
