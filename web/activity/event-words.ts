import type { AuditEvent } from "../api/messages.ts";
import { exactTime, wholeNumber } from "../time/local-format.ts";
import { requestCount } from "../usage/usage-words.ts";

/** What was done, as the table and its filter say it, and the same as what was tried. */
const actionWords: ReadonlyMap<string, readonly [done: string, tried: string]> = new Map([
  ["key.create", ["Key created", "Create a key"]],
  ["key.update", ["Key changed", "Change a key"]],
  ["key.rotate", ["Key rotated", "Rotate a key"]],
  ["key.revoke", ["Key revoked", "Revoke a key"]],
  ["key.revoke_leaked", ["Leaked key reported", "Report a leaked key"]],
  ["key.expire", ["Key expired", "Key expired"]],
  ["member.add", ["Member added", "Add a member"]],
  ["member.remove", ["Member removed", "Remove a member"]],
  ["team.create", ["Team created", "Create the team"]],
  ["team.update", ["Team changed", "Change the team"]],
  ["team.grant_requests", ["Requests granted", "Grant requests"]],
  ["team.delete", ["Team deleted", "Delete the team"]],
]);

/** The choices of the filter by what was done. */
export const actionChoices = [...actionWords].map(([value, [words]]) => ({ value, words }));

/**
 * The words for an event: what was done, or what was tried where it was refused or nobody knows.
 * Those of an action that is newer than this page are made of its name.
 */
export function actionInWords({ action = "", outcome }: AuditEvent): string {
  const [done, tried] = actionWords.get(action) ?? [nameInWords(action), nameInWords(action)];
  return outcome === "AUDIT_OUTCOME_REFUSED" || outcome === "AUDIT_OUTCOME_UNKNOWN" ? tried : done;
}

/** "invented.by_others" as "Invented: by others". */
function nameInWords(action: string): string {
  const words = action.replace(/_/g, " ").replace(/\./g, ": ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

const channelWords = new Map<AuditEvent["channel"], string>([
  ["AUDIT_CHANNEL_SCREEN", "on the screen"],
  ["AUDIT_CHANNEL_COMMAND_LINE", "on the command line"],
  ["AUDIT_CHANNEL_RPC", "by RPC"],
]);

/** How and from where it was done: "on the screen, from 203.0.113.7". Empty if by Keyrun itself. */
export function originInWords({ channel = "AUDIT_CHANNEL_UNSPECIFIED", address, actor }: AuditEvent): string {
  const where = channelWords.get(channel);
  const parts = [where === `on ${actor}` ? undefined : where, address && `from ${address}`];
  return parts.filter((part) => part).join(", ");
}

/**
 * What exactly was done, of the event's `name=value` pairs: ["plan: pro"]. What was changed is
 * named once. A key is named by `keyName`, and times are local.
 */
export function detailInWords({ detail = "" }: AuditEvent, keyName: (keyId: string) => string): string[] {
  const pairs = [...detail.matchAll(/(\w+)=(\S+)/g)].map(([, name = "", value = ""]) => ({ name, value }));
  return pairs.flatMap(({ name, value }) => {
    const words = detailWords[name]?.(value, keyName);
    if (words !== undefined) return words;
    const told = name === "changed" ? withoutTold(value, pairs) : value;
    return told === "" ? [] : `${name}: ${told}`.replace(/_/g, " ").replace(/,/g, ", ");
  });
}

/** The names of what was changed, without those whose new value stands beside them. */
function withoutTold(names: string, pairs: readonly { readonly name: string }[]): string {
  const isTold = (changed: string) => pairs.some(({ name }) => name === changed);
  return names
    .split(",")
    .filter((changed) => !isTold(changed))
    .join(",");
}

const detailWords: Readonly<Record<string, (value: string, keyName: (keyId: string) => string) => string>> = {
  replaced_by_key_id: (value, keyName) => `replaced by ${keyName(value)}`,
  expire_time: (value) => `expires ${exactTime(Date.parse(value))}`,
  overlap: (value) => {
    const seconds = Number.parseFloat(value);
    return seconds === 0 ? "the old key ended at once" : `the old key works for ${spanInWords(seconds)}`;
  },
  apps: (value) => `apps: ${value.replace(/\+(\d+)$/, "$1 more").replace(/,/g, ", ")}`,
  quota: (value) => `quota: ${value.replace("/", " requests a ")}`,
  requests: (value) => requestCount(Number(value)),
  requests_per_minute: (value) => `limit: ${requestCount(Number(value))} a minute`,
};

/** The time in the largest unit in which it is whole: "24 hours". */
function spanInWords(seconds: number): string {
  const units = [
    [86_400, "day"],
    [3_600, "hour"],
    [60, "minute"],
  ] as const;
  const [size, unit] = units.find(([size]) => seconds % size === 0) ?? ([1, "second"] as const);
  const count = seconds / size;
  return `${wholeNumber(count)} ${unit}${count === 1 ? "" : "s"}`;
}

/** What became of it: "Refused: key limit reached"; empty if it was done. */
export function outcomeInWords({ outcome, reason, count = 0 }: AuditEvent): string {
  const times = count > 1 ? `, ${count} times` : "";
  if (outcome === "AUDIT_OUTCOME_UNKNOWN") return `Outcome unknown${times}`;
  if (outcome !== "AUDIT_OUTCOME_REFUSED") return "";
  return `Refused${reason ? `: ${reason.toLowerCase().replaceAll("_", " ")}` : ""}${times}`;
}
