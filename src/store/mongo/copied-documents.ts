import type { KeyRecord } from "../../keys/key-store.ts";
import { type CopiedBatch, type CopiedName, copiedShapes } from "../copied-records.ts";
import { checkRecord } from "../records.ts";
import { activeSlot, endedSlot, keyDocumentOf, successorSlot } from "./key-documents.ts";
import { serviceTokenDocumentOf } from "./service-token-store.ts";
import { memberIdOf } from "./team-store.ts";
import { fieldsOf, placeOf, dayIdOf } from "./usage-store.ts";

/** Any document of a collection that takes a copy. */
export interface CopiedDocument {
  readonly _id: string | number;
  readonly [field: string]: unknown;
}

/**
 * Makes the documents of records, as MongoDB's stores write them. To be called with the batches in
 * their order: a team's active keys are numbered as they come, so a second pass with a new function
 * makes the same documents.
 */
export function createCopiedDocuments(): (batch: CopiedBatch) => CopiedDocument[] {
  const slots = new Map<string, number>();
  /** The numbers of active keys by their first keys: a key and its successor share one. */
  const numbers = new Map<string, number>();
  const slotOf = ({ id, teamId, revokeTimeMs, expiredTimeMs, firstKeyId }: KeyRecord) => {
    if (revokeTimeMs !== null || expiredTimeMs !== null) return endedSlot(id);
    const shared = numbers.get(firstKeyId ?? id);
    if (shared !== undefined) return successorSlot(teamId, shared, id);
    const slot = slots.get(teamId) ?? 0;
    slots.set(teamId, slot + 1);
    numbers.set(firstKeyId ?? id, slot);
    return activeSlot(teamId, slot);
  };
  let tokens = 0;
  const nextTokenSlot = () => tokens++;
  return ({ name, records }) => records.map((record) => documentOf(name, record, { slotOf, nextTokenSlot }));
}

function documentOf(
  name: CopiedName,
  record: CopiedBatch["records"][number],
  {
    slotOf,
    nextTokenSlot,
  }: { readonly slotOf: (key: KeyRecord) => string; readonly nextTokenSlot: () => number },
): CopiedDocument {
  switch (name) {
    case "teams":
    case "auditEvents":
    case "apps": {
      const { id, ...facts } = record;
      return { _id: String(id), ...facts };
    }
    case "members": {
      const member = checkRecord(copiedShapes.members, record, name);
      return { _id: memberIdOf(member), ...member };
    }
    case "preview":
      return { _id: String(record.email), granted: true };
    case "users": {
      const { email, ...user } = record;
      return { _id: String(email), ...user };
    }
    case "keys": {
      const key = checkRecord(copiedShapes.keys, record, name);
      return { ...keyDocumentOf(key, slotOf(key)) };
    }
    case "serviceTokens": {
      const token = checkRecord(copiedShapes.serviceTokens, record, name);
      // Only those of accepted tokens are taken, and their numbers count towards the bound.
      const slot = token.revokeTimeMs === null ? nextTokenSlot() : 0;
      return { ...serviceTokenDocumentOf(token, slot) };
    }
    case "runRecords": {
      const { id, ...run } = checkRecord(copiedShapes.runRecords, record, name);
      return { _id: id, ...run, textExpireTimeMs: run.textBytes > 0 ? run.expireTimeMs : null };
    }
    case "windowPages": {
      const { number, ...page } = record;
      return { _id: Number(number), ...page };
    }
    case "usageHours": {
      const hour = checkRecord(copiedShapes.usageHours, record, name);
      const place = placeOf(hour);
      // Each record has a document of its own: the hours of a day don't share one here.
      return { ...place, _id: `${place._id}@${hour.startTimeMs}`, ...fieldsOf(hour), writes: 1 };
    }
    case "usageDays": {
      const day = checkRecord(copiedShapes.usageDays, record, name);
      return { _id: dayIdOf(day), ...day };
    }
  }
}
