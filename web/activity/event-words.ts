import type { AuditEvent } from "../api/messages.ts";

/** What an event is about, as the table and its filter say it. */
export const actionWords: ReadonlyMap<string, string> = new Map([
  ["key.create", "Create key"],
  ["key.update", "Change key"],
  ["key.rotate", "Rotate key"],
  ["key.revoke", "Revoke key"],
  ["key.revoke_leaked", "Report leaked key"],
  ["key.expire", "Key expired"],
  ["member.add", "Add member"],
  ["member.remove", "Remove member"],
  ["team.create", "Create team"],
  ["team.update", "Change team"],
  ["team.delete", "Delete team"],
]);

/** The words for an action; its name if it is newer than this page. */
export function actionInWords(action = ""): string {
  return actionWords.get(action) ?? action;
}

const channelWords = new Map<AuditEvent["channel"], string>([
  ["AUDIT_CHANNEL_SCREEN", "on the screen"],
  ["AUDIT_CHANNEL_COMMAND_LINE", "on the command line"],
  ["AUDIT_CHANNEL_RPC", "by RPC"],
]);

/** How and from where it was done: "on the screen, from 203.0.113.7". Empty if by Keyrun itself. */
export function originInWords({ channel = "AUDIT_CHANNEL_UNSPECIFIED", address }: AuditEvent): string {
  const parts = [channelWords.get(channel), address && `from ${address}`];
  return parts.filter((part) => part).join(", ");
}

/**
 * What exactly was done, of the event's `name=value` pairs: ["plan: pro"]. A key is named by
 * `keyName`.
 */
export function detailInWords({ detail = "" }: AuditEvent, keyName: (keyId: string) => string): string[] {
  return [...detail.matchAll(/(\w+)=(\S+)/g)].map(([, name, value = ""]) =>
    name === "replaced_by_key_id"
      ? `replaced by: ${keyName(value)}`
      : `${name}: ${value}`.replace(/_/g, " ").replace(/,/g, ", "),
  );
}

/** What became of it: "Refused: key_limit_reached"; empty if it was done. */
export function outcomeInWords({ outcome, reason, count = 0 }: AuditEvent): string {
  const times = count > 1 ? `, ${count} times` : "";
  if (outcome === "AUDIT_OUTCOME_UNKNOWN") return `Outcome unknown${times}`;
  if (outcome !== "AUDIT_OUTCOME_REFUSED") return "";
  return `Refused${reason ? `: ${reason.toLowerCase()}` : ""}${times}`;
}
