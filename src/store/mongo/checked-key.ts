import type { KeyRecord } from "../../keys/key-store.ts";
import { checkRecord } from "../records.ts";
import { type KeyDocument, storedKey } from "./documents.ts";

/** The record of a key's document. Throws INTERNAL where the document does not fit. */
export function checkKey(document: KeyDocument): KeyRecord {
  const { _id, labelFolded, slot, requestKey, ...facts } = checkRecord(
    storedKey,
    document,
    `keys/${document._id}`,
  );
  return { id: _id, ...facts };
}

export function keyOf(document: KeyDocument | null): KeyRecord | undefined {
  return document ? checkKey(document) : undefined;
}

/** What the documents of active keys have in common. */
export const activeKey = { revokeTimeMs: { $eq: null }, expiredTimeMs: { $eq: null } } as const;
