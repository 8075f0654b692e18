import type { KeyJson } from "#gen/keyrun/v1/key_pb.ts";
import { systemClock } from "../base/clock.ts";
import type { TeamOption } from "./key-commands.ts";
import { allPages, pageSize } from "./pages.ts";
import { type Column, printTable, type Row, timeCell } from "./table.ts";
import { chooseTeam } from "./team-choice.ts";
import { answer, type Terminal } from "./terminal.ts";
import { readSpan } from "./time-options.ts";

export interface ListOptions extends TeamOption {
  revoked?: boolean;
  search?: string;
  unusedFor?: string;
}

export async function listKeys(terminal: Terminal, options: ListOptions): Promise<void> {
  const unusedMs = options.unusedFor === undefined ? undefined : readSpan(options.unusedFor, "--unused-for");
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
    // Where no key ends, the columns that say so would only take room.
    const showsEnds = keys.some(({ expireTime }) => expireTime !== undefined);
    const rows = keys.map((key) => rowOf(key, showsEnds));
    await printTable(terminal, columnsFor(options, showsEnds), rows);
    const { activeKeyCount = 0, activeKeyCountMax = 0 } = message;
    terminal.note(`${activeKeyCount} of at most ${activeKeyCountMax} active keys.`);
  });
}

/** A key that was never used counts from its creation. */
function unusedSince(unixMs: number, keys: readonly KeyJson[]): KeyJson[] {
  return keys.filter(({ state, lastUseTime, createTime = "" }) => {
    return state === "KEY_STATE_ACTIVE" && Date.parse(lastUseTime ?? createTime) <= unixMs;
  });
}

function columnsFor({ revoked }: ListOptions, showsEnds: boolean): Column[] {
  return [
    { head: "LABEL", least: 12 },
    { head: "KEY" },
    { head: "ID", spare: true },
    { head: "CREATED" },
    { head: "BY", least: 10, ...(revoked && { spare: true }) },
    { head: "LAST USED" },
    ...(showsEnds ? [{ head: "STATE" }, { head: "EXPIRES" }] : []),
    ...(revoked ? [{ head: "REVOKED" }, { head: "BY", least: 10 }] : []),
  ];
}

function rowOf(key: KeyJson, showsEnds: boolean): Row {
  const isRevoked = key.state === "KEY_STATE_REVOKED";
  const isOver = isRevoked || key.state === "KEY_STATE_EXPIRED";
  const cells = [
    `${key.label || "-"}${restrictionNote(key)}`,
    key.redactedValue ?? "",
    key.id ?? "",
    timeCell(key.createTime),
    key.createdBy || "-",
    timeCell(key.lastUseTime, "never"),
    ...(showsEnds ? [stateWord(key), timeCell(key.expireTime, "never")] : []),
    isRevoked ? timeCell(key.revokeTime) : "",
    key.revokedBy ?? "",
  ];
  return { cells, faint: isOver };
}

function stateWord({ state, replacedByKeyId = "" }: KeyJson): string {
  if (state === "KEY_STATE_REVOKED") return "revoked";
  if (state === "KEY_STATE_EXPIRED") return "expired";
  return replacedByKeyId === "" ? "active" : "replaced";
}

/** What the key is restricted to, in brackets behind its label. */
function restrictionNote({ appIds = [], requestsPerMinute }: KeyJson): string {
  const notes = [
    ...(appIds.length > 1 ? [`${appIds.length} apps`] : appIds),
    ...(requestsPerMinute === undefined ? [] : [`${requestsPerMinute}/min`]),
  ];
  return notes.length === 0 ? "" : ` (${notes.join(", ")})`;
}
