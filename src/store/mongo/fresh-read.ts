import type { Db, FindOneOptions } from "mongodb";

/** How a record is read that a right depends on. Without options: the client's majority read. */
export type FreshRead = Pick<FindOneOptions, "readConcern" | "maxTimeMS">;

/**
 * The reads of one instance of a fleet. A change of rights is written by one instance and told to
 * the others, whose next read must see it. A majority read need not: a primary may lag behind what
 * it has acknowledged, and a deposed one does not know of it. The protocol's proof therefore asks
 * for a read with a causal token; a linearizable read by `_id` promises the same without one, and
 * also where the token would have been lost with a connection. A server that is no replica set has
 * one node, whose majority reads are linearizable.
 */
export async function freshReadOf(db: Db, { callMsMax }: { readonly callMsMax: number }): Promise<FreshRead> {
  const { setName, msg } = await db.command({ hello: 1 });
  if (typeof setName !== "string" && msg !== "isdbgrid") return {};
  // Without a majority such a read would wait for ever.
  return { readConcern: { level: "linearizable" }, maxTimeMS: callMsMax };
}
