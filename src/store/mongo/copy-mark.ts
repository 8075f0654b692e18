import { StartRefused } from "../../refusal/start-refused.ts";
import type { FreshRead } from "./connection.ts";
import type { Collections } from "./documents.ts";
import { isDuplicate } from "./store-call.ts";

/** The mark that a copy of another store leaves in the database. */
export interface CopyMark {
  /** How far the copy has come. */
  readonly state: "under way" | "whole";
  /** The one that set it; absent in the mark of an older Keyrun. */
  readonly copier?: string | undefined;
}

type Meta = Pick<Collections, "meta">;

/** The state is a number, as everything in `meta` is. */
const numbers = { "under way": 1, whole: 2 } as const;
const mark = { _id: { $eq: "copy" } };

/** Undefined where nothing was ever copied into the database. */
export async function findCopyMark({ meta }: Meta, freshRead: FreshRead = {}): Promise<CopyMark | undefined> {
  const found = await meta.findOne(mark, freshRead);
  if (!found) return undefined;
  return { state: found.version === numbers.whole ? "whole" : "under way", copier: found.copier };
}

/**
 * Marks the database as that of a copy of `copier` that is under way, on the condition that its
 * mark is still the one that was seen. False: another copier was faster, and nothing is changed.
 * Durable when the promise resolves.
 */
export async function beginCopy(
  { meta }: Meta,
  { seen, copier }: { readonly seen: CopyMark | undefined; readonly copier: string },
): Promise<boolean> {
  const begun = { version: numbers["under way"], copier };
  if (seen) {
    const unchanged = { version: { $eq: numbers[seen.state] }, copier: copierIs(seen.copier) };
    const outcome = await meta.updateOne({ ...mark, ...unchanged }, { $set: begun });
    return outcome.matchedCount === 1;
  }
  try {
    await meta.insertOne({ _id: mark._id.$eq, ...begun });
    return true;
  } catch (thrown) {
    if (isDuplicate(thrown)) return false;
    throw thrown;
  }
}

/**
 * Marks the copy of `copier` as whole. False: another copier has begun anew, and nothing is
 * changed. Durable when the promise resolves.
 */
export async function endCopy({ meta }: Meta, copier: string): Promise<boolean> {
  const own = { ...mark, copier: copierIs(copier) };
  const outcome = await meta.updateOne(own, { $set: { version: numbers.whole } });
  return outcome.matchedCount === 1;
}

function copierIs(copier: string | undefined) {
  return copier === undefined ? { $exists: false } : { $eq: copier };
}

/** Throws StartRefused for a database with a part of a copy. */
export async function requireWhole(collections: Meta, freshRead: FreshRead = {}): Promise<void> {
  if ((await findCopyMark(collections, freshRead))?.state !== "under way") return;
  throw new StartRefused(
    "A copy of a data folder into this MongoDB database was cut off. Run `./keyrun copy-to-mongodb` once more: it begins anew.",
  );
}
