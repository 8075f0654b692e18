import { wholeNumber } from "../../time/local-format.ts";
import type { KeySort } from "../key-view.ts";

/** How many keys a search found: "2 keys found". */
export function foundInWords(found: number, more: boolean): string {
  const keys = found === 0 ? "No key" : found === 1 ? "1 key" : `${wholeNumber(found)} keys`;
  return more ? `${keys} found so far` : `${keys} found`;
}

/** The order of the list: "Sorted by last use, newest first". */
export function sortInWords({ by, order }: KeySort): string {
  const what = by === "created" ? "time of creation" : "last use";
  return `Sorted by ${what}, ${order === "descending" ? "newest" : "oldest"} first`;
}
