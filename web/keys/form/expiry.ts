import { bounds } from "../../bounds.ts";

const dayMs = 24 * 60 * 60 * 1_000;
const minuteMs = 60_000;

/** What a person has chosen as the end of a key. */
export interface Expiry {
  /** "never", a number of hours from now, or "date". */
  readonly choice: string;
  /** The chosen day as a field of dates has it: "2026-12-31". Counts for "date" alone. */
  readonly date: string;
}

export const neverExpires: Expiry = { choice: "never", date: "" };

export const expiryChoices = [
  { choice: "never", words: "Never" },
  { choice: "720", words: "In 30 days" },
  { choice: "2160", words: "In 90 days" },
  { choice: "8760", words: "In 365 days" },
  { choice: "date", words: "On a date…" },
];

/** When the key ends, in Unix time; null if it never does, or no day is chosen. */
export function expiryMs({ choice, date }: Expiry, nowMs: number): number | null {
  if (choice === "never") return null;
  if (choice !== "date") return nowMs + Number(choice) * 60 * minuteMs;
  const [year = 0, month = 0, day = 0] = date.split("-").map(Number);
  // The last second of the day in the person's own zone.
  return date === "" ? null : new Date(year, month - 1, day + 1).getTime() - 1_000;
}

/** Why Keyrun would refuse this end; null if it would accept it. `beforeMs` is the present end. */
export function expiryProblem(expiry: Expiry, nowMs: number, beforeMs?: number): string | null {
  if (expiry.choice !== "date") return null;
  const ms = expiryMs(expiry, nowMs);
  if (ms === null || Number.isNaN(ms)) return "Choose a day.";
  if (ms < nowMs + minuteMs) return "This day is over. Choose a later one.";
  if (beforeMs !== undefined && ms > beforeMs) return "The key expires before that. Choose an earlier day.";
  if (ms > nowMs + bounds.expiryDaysMax * dayMs) return "Choose a day within the next ten years.";
  return null;
}

/** A day as a field of dates has it, in the person's own zone. */
export function dayOf(ms: number): string {
  const date = new Date(ms);
  return [date.getFullYear(), date.getMonth() + 1, date.getDate()]
    .map((part) => String(part).padStart(2, "0"))
    .join("-");
}
