import type { Filter } from "mongodb";
import type { AuditEvent, AuditQuery, AuditStore } from "../../audit/audit-store.ts";
import { checkRecord } from "../records.ts";
import { type AuditDocument, auditDocument, type Collections, storedAuditEvent } from "./documents.ts";
import { repeatOnDuplicate, type StoreCall } from "./store-call.ts";

/** The events in MongoDB. `with-event.ts` writes that of a change before it. */
export function createAuditStore({ auditEvents }: Collections, call: StoreCall): AuditStore {
  return {
    async write(events) {
      if (events.length === 0) return;
      const updates = events.map((event) => ({ updateOne: { ...updateOf(event), upsert: true } }));
      const write = () => auditEvents.bulkWrite(updates, { ordered: false });
      await call(() => repeatOnDuplicate(write));
    },
    async insert(event) {
      const { _id, ...facts } = documentOf(event);
      const insert = () => auditEvents.updateOne(byId(_id), { $setOnInsert: facts }, { upsert: true });
      return (await call(() => repeatOnDuplicate(insert))).upsertedCount === 1;
    },
    async list({ limit, ...query }) {
      if (limit <= 0) return []; // MongoDB takes 0 for no limit.
      const page = auditEvents.find(filterOf(query)).sort({ timeMs: -1, _id: -1 }).limit(limit);
      return (await call(() => page.toArray())).map(eventOf);
    },
    async deleteBefore({ beforeMs, limit }) {
      if (limit <= 0) return 0;
      const old = { timeMs: { $lt: beforeMs } };
      const batch = auditEvents.find(old).sort({ timeMs: 1, _id: 1 }).limit(limit).project({ _id: 1 });
      const ids = (await call(() => batch.toArray())).map(({ _id }) => String(_id));
      if (ids.length === 0) return 0;
      return (await call(() => auditEvents.deleteMany({ _id: { $in: ids } }))).deletedCount;
    },
  };
}

/** A plain value: FerretDB looks an id up only so. With `$eq` it would read all events. */
const byId = (id: string) => ({ _id: id });

function filterOf({ teamId, actor, action, targets, fromMs, beforeMs, after }: Omit<AuditQuery, "limit">) {
  const conditions: Filter<AuditDocument>[] = [];
  if (teamId !== undefined) conditions.push({ teamId: { $eq: teamId } });
  if (actor !== undefined) conditions.push({ actor: { $eq: actor } });
  if (action !== undefined) conditions.push({ action: { $eq: action } });
  if (targets !== undefined) conditions.push({ target: { $in: [...targets] } });
  if (fromMs !== undefined) conditions.push({ timeMs: { $gte: fromMs } });
  if (beforeMs !== undefined) conditions.push({ timeMs: { $lt: beforeMs } });
  if (after) {
    const { timeMs, id } = after;
    // The first condition alone lets the index begin at the place.
    conditions.push({ timeMs: { $lte: timeMs } });
    conditions.push({ $or: [{ timeMs: { $lt: timeMs } }, { timeMs: { $eq: timeMs }, _id: { $lt: id } }] });
  }
  return conditions.length === 0 ? {} : { $and: conditions };
}

function updateOf(event: AuditEvent) {
  const { _id, outcome, reason, count, teamId, target, detail, ...facts } = documentOf(event);
  return {
    filter: byId(_id),
    update: { $set: { outcome, reason, count, teamId, target, detail }, $setOnInsert: facts },
  };
}

function documentOf({ id, ...facts }: AuditEvent): AuditDocument {
  return checkRecord(auditDocument, { _id: id, ...facts }, "auditEvents");
}

function eventOf(document: unknown): AuditEvent {
  const { _id, ...facts } = checkRecord(storedAuditEvent, document, "auditEvents");
  return { id: _id, ...facts };
}
