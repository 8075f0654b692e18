import { StartRefused } from "../refusal/start-refused.ts";
import { type CopiedBatch, type CopiedName, copiedNames } from "./copied-records.ts";

/** A store that no process serves, and that is read whole. */
export interface CopySource {
  /** Every secret version that a key names, in no order. */
  secretVersions(): string[];
  /** All records, in the same order each time. */
  batches(): Iterable<CopiedBatch>;
  /** Leaves the store to the next process. */
  close(): void;
}

/** An empty store that takes a copy. Until `finish` has resolved, no Keyrun starts on it. */
export interface CopyTarget {
  /** Adds the records, durable. To be called with the batches in their order. */
  write(batch: CopiedBatch): Promise<void>;
  /** Whether the store holds these records as they were written. In the same order again. */
  holds(batch: CopiedBatch): Promise<boolean>;
  /** How many records of this kind the store holds. */
  count(name: CopiedName): Promise<number>;
  /** Leaves the store to the next start of Keyrun. */
  finish(): Promise<void>;
  close(): Promise<void>;
}

/** How many records of each kind were copied. */
export type CopiedCounts = Readonly<Record<CopiedName, number>>;

export const copyBounds = {
  /** In one message to the database. */
  recordsAtOnce: 500,
  /** Of the texts of kept answers, in one message. */
  textCharactersAtOnce: 4 * 1024 * 1024,
} as const;

/**
 * Copies all records, then reads them back and compares. Throws StartRefused where the copy is not
 * the same: the target can't be served then, and the next copy begins anew. The source stays as it
 * is.
 */
export async function copyStore(source: CopySource, target: CopyTarget): Promise<CopiedCounts> {
  const counts = new Map<CopiedName, number>();
  for (const batch of source.batches()) {
    await target.write(batch);
    counts.set(batch.name, (counts.get(batch.name) ?? 0) + batch.records.length);
  }
  for (const batch of source.batches()) {
    if (!(await target.holds(batch))) throw notTheSame(batch.name);
  }
  const all = copiedNames.map((name) => [name, counts.get(name) ?? 0] as const);
  for (const [name, count] of all) if ((await target.count(name)) !== count) throw notTheSame(name);
  await target.finish();
  return Object.fromEntries(all) as Record<CopiedName, number>;
}

function notTheSame(name: CopiedName): StartRefused {
  return new StartRefused(
    `What MongoDB holds of the ${name} is not what was copied, so something else has written to the database. Make sure that nothing does, and run the command again: it begins anew.`,
  );
}
