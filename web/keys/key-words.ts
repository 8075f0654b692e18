import type { Key } from "../api/messages.ts";
import { wholeNumber } from "../time/local-format.ts";
import type { KeyCounts } from "./key-pages.ts";

/** The heading of the key's row. */
export function keyLabel(key: Key): string {
  return key.label || "Untitled key";
}

/** The key within a sentence: "ci-deploy", or "untitled key svc_7k3f…x9Qz". */
export function keyInWords(key: Key): string {
  return key.label || `untitled key ${key.redactedValue}`;
}

/** The key at the start of a sentence: "Key ci-deploy" or "Untitled key svc_7k3f…x9Qz". */
export function keyAsSubject(key: Key): string {
  return key.label ? `Key ${key.label}` : `Untitled key ${key.redactedValue}`;
}

/**
 * How many keys a team has: "3 active keys (up to 50), 4 past". A key and the one that replaces it
 * count as one, so `listed` active keys may be more than those that count.
 */
export function countsInWords({ active, activeMax, past }: KeyCounts, listed: number): string {
  const all = Math.max(active, listed);
  const replaced =
    all === active
      ? ""
      : `, not counting ${wholeNumber(all - active)} that ${all - active === 1 ? "was" : "were"} replaced`;
  const keys = `${wholeNumber(all)} active ${all === 1 ? "key" : "keys"} (up to ${wholeNumber(activeMax)}${replaced})`;
  return past === 0 ? keys : `${keys}, ${wholeNumber(past)} past`;
}

/** How many keys a search or a filter found: "2 keys found". */
export function foundInWords(found: number, more: boolean): string {
  const keys = found === 0 ? "No key" : found === 1 ? "1 key" : `${wholeNumber(found)} keys`;
  return more ? `${keys} found so far` : `${keys} found`;
}

/** How a key ended: "Revoked" or "Expired". */
export function endInWords(key: Key): string {
  return key.state === "KEY_STATE_EXPIRED" ? "Expired" : "Revoked";
}
