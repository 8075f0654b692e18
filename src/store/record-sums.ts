import type { RecordTotals } from "../run/idempotency/run-record-store.ts";

interface Removed {
  readonly teamId: string;
  readonly textBytes: number;
}

/** What all of these are together. */
export function sumOf(removed: readonly Pick<Removed, "textBytes">[]): RecordTotals {
  return { records: removed.length, textBytes: removed.reduce((sum, { textBytes }) => sum + textBytes, 0) };
}

/** What they are together, for each team. */
export function sumByTeam(removed: readonly Removed[]): ReadonlyMap<string, RecordTotals> {
  const byTeam = Map.groupBy(removed, ({ teamId }) => teamId);
  return new Map([...byTeam].map(([teamId, ofTeam]) => [teamId, sumOf(ofTeam)]));
}
