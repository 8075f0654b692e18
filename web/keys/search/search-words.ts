import type { KeySort } from "../key-view.ts";

/** The order of the list: "Sorted by last use, newest first". */
export function sortInWords({ by, order }: KeySort): string {
  if (by === "expires") return `Sorted by expiry, ${order === "ascending" ? "soonest" : "latest"} first`;
  const what = { created: "time of creation", used: "last use", ended: "end" }[by];
  return `Sorted by ${what}, ${order === "descending" ? "newest" : "oldest"} first`;
}
