import { languages } from "../../time/local-format.ts";
import { type UsageSpan, usageSpans } from "./usage-span.ts";

let hourFormat: Intl.DateTimeFormat | undefined;
let dayFormat: Intl.DateTimeFormat | undefined;

/** The start of a step, as short as below a chart: "14:00" in local time, or "22 Nov". */
export function tickInWords(startMs: number, span: UsageSpan): string {
  return format(span).format(startMs);
}

/** A step: "14:00 – 15:00", or "22 Nov", a day of UTC. */
export function stepInWords(startMs: number, span: UsageSpan): string {
  if (span === "month") return tickInWords(startMs, span);
  return format(span).formatRange(startMs, startMs + usageSpans[span].stepMs);
}

function format(span: UsageSpan): Intl.DateTimeFormat {
  if (span === "day") {
    hourFormat ??= new Intl.DateTimeFormat(languages(), { timeStyle: "short" });
    return hourFormat;
  }
  dayFormat ??= new Intl.DateTimeFormat(languages(), { month: "short", day: "numeric", timeZone: "UTC" });
  return dayFormat;
}
