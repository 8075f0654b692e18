/** `keys list`: the table of a team's keys, and what is noted below it. */

import type { KeyJson } from "#gen/keyrun/v1/key_pb.ts";
import { systemClock } from "../base/clock.ts";
import { readSpan, type TeamOption } from "./command-words.ts";
import { chooseTeam, wholeList } from "./lists.ts";
import { periodWord } from "./quota-words.ts";
import { type Column, printTable, type Row, timeCell } from "./table.ts";
import { answer, type Terminal } from "./terminal.ts";

export interface ListOptions extends TeamOption {
  revoked?: boolean;
  search?: string;
  unusedFor?: string;
}

/** Prints a team's keys as a table. It has only the columns in which a key has something to say. */
export async function listKeys(terminal: Terminal, options: ListOptions): Promise<void> {
  const unusedMs = options.unusedFor === undefined ? undefined : readSpan(options.unusedFor, "--unused-for");
  const { keys: client } = await terminal.server();
  const teamId = await chooseTeam(terminal, options.team);
  const request = { teamId, showRevoked: options.revoked ?? false, query: options.search ?? "" };
  const message = await wholeList("keys", (page) => client.listKeys({ ...request, ...page }));
  if (unusedMs !== undefined) message.keys = unusedSince(systemClock.unixMs() - unusedMs, message.keys);
  const { keys, activeKeyCount = 0, activeKeyCountMax = 0 } = message;
  await answer(terminal, options, message, async () => {
    // Where no key has anything to say in a column, that would only take room.
    const shown = {
      revoked: options.revoked ?? false,
      restrictions: keys.some((key) => restrictionWords(key) !== ""),
      // When a key was revoked has a column of its own.
      states: keys.some((key) => !["active", "revoked"].includes(stateWord(key))),
      ends: keys.some(({ expireTime }) => expireTime !== undefined),
    };
    await printTable(
      terminal,
      columnsFor(shown),
      keys.map((key) => rowOf(key, shown)),
    );
    if (keys.length === 0 && (options.search !== undefined || unusedMs !== undefined)) {
      terminal.note(noneFound(options));
    }
    // A key and the one that replaces it count as one.
    const isWhole = options.search === undefined && unusedMs === undefined;
    const more = isWhole
      ? keys.filter(({ state }) => state === "KEY_STATE_ACTIVE").length - activeKeyCount
      : 0;
    const replaced = more > 0 ? `, not counting ${more} that ${more === 1 ? "was" : "were"} replaced` : "";
    terminal.note(`${activeKeyCount} of at most ${activeKeyCountMax} active keys${replaced}.`);
  });
}

/** A key that was never used counts from its creation. */
function unusedSince(unixMs: number, keys: readonly KeyJson[]): KeyJson[] {
  return keys.filter(({ state, lastUseTime, createTime = "" }) => {
    return state === "KEY_STATE_ACTIVE" && Date.parse(lastUseTime ?? createTime) <= unixMs;
  });
}

function noneFound({ search, unusedFor, revoked }: ListOptions): string {
  const asked = [
    // The text is not repeated: it may be a part of a key.
    ...(search === undefined ? [] : ["fits --search"]),
    ...(unusedFor === undefined ? [] : [`was unused for ${unusedFor}`]),
  ];
  const more = revoked || unusedFor !== undefined ? "" : " --revoked looks among ended keys, too.";
  return `No ${revoked ? "" : "active "}key of the team ${asked.join(" and ")}.${more}`;
}

/** Which columns a list has besides those that each has. */
interface Shown {
  readonly revoked: boolean;
  readonly restrictions: boolean;
  readonly states: boolean;
  readonly ends: boolean;
}

function columnsFor({ revoked, restrictions, states, ends }: Shown): Column[] {
  return [
    { head: "LABEL", least: 12 },
    // A key that may do less is never shown as one that may do all.
    ...(restrictions ? [{ head: "ONLY", least: 8 }] : []),
    { head: "KEY", spare: 1 },
    { head: "ID" },
    { head: "CREATED", spare: revoked ? 3 : 5 },
    { head: "BY", spare: 2 },
    { head: "LAST USED", ...(revoked && { spare: 6 }) },
    ...(states ? [{ head: "STATE", spare: 7 }] : []),
    ...(ends ? [{ head: "EXPIRES", spare: 4 }] : []),
    ...(revoked ? [{ head: "REVOKED" }, { head: "REVOKED BY", spare: 5 }] : []),
  ];
}

function rowOf(key: KeyJson, { restrictions, states, ends }: Shown): Row {
  const isRevoked = key.state === "KEY_STATE_REVOKED";
  const isOver = isRevoked || key.state === "KEY_STATE_EXPIRED";
  const cells = [
    key.label || "-",
    ...(restrictions ? [restrictionWords(key)] : []),
    key.redactedValue ?? "",
    key.id ?? "",
    timeCell(key.createTime),
    key.createdBy || "-",
    timeCell(key.lastUseTime, "never"),
    ...(states ? [stateWord(key)] : []),
    ...(ends ? [timeCell(key.expireTime, "never")] : []),
    isRevoked ? timeCell(key.revokeTime) : "",
    key.revokedBy ?? "",
  ];
  return { cells, faint: isOver };
}

/** How people call the state of a key. */
export function stateWord({ state, replacedByKeyId = "" }: KeyJson): string {
  if (state === "KEY_STATE_REVOKED") return "revoked";
  if (state === "KEY_STATE_EXPIRED") return "expired";
  return replacedByKeyId === "" ? "active" : "replaced";
}

/** What the key is restricted to; empty if it is not. */
function restrictionWords({ appIds = [], requestsPerMinute, quota }: KeyJson): string {
  const notes = [
    ...(appIds.length > 1 ? [`${appIds.length} apps`] : appIds),
    ...(requestsPerMinute === undefined ? [] : [`${requestsPerMinute}/min`]),
    ...(quota === undefined ? [] : [`${quota.limit}/${periodWord(quota)}`]),
  ];
  return notes.join(", ");
}
