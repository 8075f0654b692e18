import { type Entry, entries } from "#src/metrics/metrics.ts";
import { type Reason, reasons } from "#src/refusal/reasons.ts";
import type { Keyrun } from "../../harness/keyrun.ts";

/** One line of the log about a refusal. */
export interface RefusalLine {
  readonly entry: string;
  readonly reason: string;
  readonly requestId: string;
  readonly request: string;
  readonly address: string;
  /** The whole line. */
  readonly text: string;
}

/**
 * How much each series of `keyrun_requests_total` has grown, by `<entry> <outcome> <status>`.
 * Series that have not grown are left out.
 */
export type Growth = Readonly<Record<string, number>>;

/** What a Keyrun has counted and logged since `openLedger` was called. */
export interface Ledger {
  growth(): Promise<Growth>;
  lines(): RefusalLine[];
}

/** The counts as they were last read. A read takes as long as a request. */
const latest = new WeakMap<Keyrun, Map<string, number>>();

/** `isIdle`: nothing was sent to the Keyrun since the growth of another ledger was read. */
export async function openLedger(keyrun: Keyrun, { isIdle = false } = {}): Promise<Ledger> {
  const linesBefore = keyrun.logLines.length;
  const before = (isIdle && latest.get(keyrun)) || (await counts(keyrun));
  return {
    async growth() {
      const now = await counts(keyrun);
      latest.set(keyrun, now);
      const grown = [...now].map(([series, count]) => [series, count - (before.get(series) ?? 0)] as const);
      return Object.fromEntries(grown.filter(([, by]) => by !== 0));
    },
    lines: () => keyrun.logLines.slice(linesBefore).flatMap(refusalLine),
  };
}

export function seriesOf(entry: Entry, reason: Reason): string {
  return `${entry} ${reason} ${reasons[reason].httpStatus}`;
}

const series = /^keyrun_requests_total\{entry="(\w+)",outcome="(\w+)",status="(\d+)"\} (\d+)$/gm;

async function counts({ internalUrl, serviceToken }: Keyrun): Promise<Map<string, number>> {
  const headers = { authorization: `Bearer ${serviceToken}` };
  const text = await (await fetch(`${internalUrl}/metrics`, { headers })).text();
  const found = [...text.matchAll(series)].map(
    ([, entry, outcome, status, count]) => [`${entry} ${outcome} ${status}`, Number(count)] as const,
  );
  if (found.length < entries.length * Object.keys(reasons).length) throw new Error("series are missing");
  return new Map(found);
}

function refusalLine(text: string): RefusalLine[] {
  const line = JSON.parse(text);
  return typeof line.reason === "string" ? [{ ...line, text }] : [];
}
