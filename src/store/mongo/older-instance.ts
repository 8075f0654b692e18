import { factsAlone } from "../../fleet/alone.ts";
import type { ControlStore, ControlView, LeaseRecord } from "../../fleet/control-store.ts";
import { checkRecord } from "../records.ts";
import type { ReadConcernOptions } from "./connection.ts";
import { type Collections, storedInstance } from "./documents.ts";
import type { StoreCall } from "./store-call.ts";

/**
 * The control store of a start, which may meet a Keyrun of the version before that serves alone.
 * That one has no lease, but a document of its own with a beat, and refuses to start beside any
 * lease. Here its document is a lease of an instance alone that came first. It lapses like one, as
 * its owner admits for 5 s after its last beat, and ends if the document is removed. Of a lease and
 * such a document that are written in one moment, at least one side sees the other: each looks
 * after it has written. To go with the next version.
 */
export function withOlderInstance(
  control: ControlStore,
  { instances }: Pick<Collections, "instances">,
  { call, readOptions }: { readonly call: StoreCall; readonly readOptions: ReadConcernOptions },
): ControlStore {
  async function shown(view: ControlView): Promise<ControlView> {
    const document = await call(() => instances.findOne({ _id: { $eq: "only" } }, readOptions));
    if (!document) return view;
    const { incarnation, beat } = checkRecord(storedInstance, document, "instances/only");
    return { ...view, leases: [leaseOf(incarnation, beat), ...view.leases] };
  }

  return {
    ...control,
    read: async () => shown(await control.read()),
    register: async (...given) => shown(await control.register(...given)),
    async removeUnchanged(id, seen) {
      if (!id.startsWith(prefix)) return control.removeUnchanged(id, seen);
      const incarnation = { $eq: id.slice(prefix.length) };
      const unchanged = { _id: { $eq: "only" }, incarnation, beat: { $eq: seen.n } };
      const { deletedCount } = await call(() => instances.deleteOne(unchanged));
      return deletedCount === 1;
    },
  };
}

const prefix = "older/";

function leaseOf(incarnation: string, beat: number): LeaseRecord {
  const id = `${prefix}${incarnation}`;
  return { id, n: beat, ack: 0, state: "live", order: 0, facts: factsAlone };
}
