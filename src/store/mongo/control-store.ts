import type { Filter, UpdateFilter } from "mongodb";
import { bounds } from "../../bounds.ts";
import type { BroughtPlanLimits, ControlStore, ControlView } from "../../fleet/control-store.ts";
import { fail, unavailable } from "../../refusal/refusal.ts";
import { checkRecord } from "../records.ts";
import type { ReadConcernOptions } from "./connection.ts";
import { type ControlDocument, controlDocument, createRecentReader, withRecent } from "./control-document.ts";
import type { Collections } from "./documents.ts";
import { isDuplicate, type StoreCall } from "./store-call.ts";

/**
 * What the instances of a fleet agree on: one document, so that each step on it is one atomic and
 * linearizable operation. It is written by `findOneAndUpdate` on the primary, acknowledged by a
 * majority: a deposed primary can't acknowledge one.
 */
export function createControlStore(
  { control }: Pick<Collections, "control">,
  { call, readOptions }: { readonly call: StoreCall; readonly readOptions: ReadConcernOptions },
): ControlStore {
  const record = new ControlRecord(control, call);
  return {
    async read() {
      return record.viewOf((await record.read(readOptions)) ?? empty);
    },
    async register(id, facts, limits) {
      const lease = fieldOf(id);
      // The last reply may be old: an instance that was removed has had none since.
      record.forget();
      const written = await record.writeFrom(({ seq, joined, leases }) => {
        if (leases[id]) throw idTaken(id);
        if (Object.keys(leases).length >= bounds.controlLeasesMax) throw tooMany();
        const own = { n: 1, ack: seq, order: joined + 1, facts } as const;
        const stated = limits ? { ...own, limits } : own;
        return {
          filter: { joined: { $eq: joined }, [lease]: { $exists: false } },
          update: { $set: { [lease]: stated }, $inc: { joined: 1 } },
        };
      });
      return record.viewOf(written);
    },
    async beat(id, { ack, nSeen, limits }) {
      const lease = fieldOf(id);
      const update = {
        $inc: { [`${lease}.n`]: 1 },
        $max: { [`${lease}.ack`]: ack },
        ...(limits && { $set: { [`${lease}.limits`]: limits } }),
      };
      // An older record must not get this ack: its number may be another change's by now.
      const own = { [`${lease}.n`]: { $gte: nSeen } };
      const written = await record.write(own, update);
      return written && record.viewOf(written);
    },
    async push(changes) {
      const written = await record.writeFrom(({ recent }) => ({
        // The number alone would not do. What was read may be of a primary that was deposed before
        // its write reached a majority: then another change has that number, and would be lost.
        filter: { recent: { $eq: recent } },
        update: { $set: { recent: withRecent(recent, changes) }, $inc: { seq: changes.length } },
      }));
      const seqs = { first: written.seq - changes.length + 1, last: written.seq };
      return { seqs, view: record.viewOf(written) };
    },
    async bringPlanLimits(brought) {
      const order = "planLimits.order";
      let before: BroughtPlanLimits | undefined;
      await record.writeFrom(({ planLimits: present }) => {
        if (present && present.order > brought.order) before = undefined;
        // With the own order, a first try of this write has happened, and `before` is of that try.
        if (present && present.order >= brought.order) return undefined;
        before = present;
        const filter = { [order]: present ? { $eq: present.order } : { $exists: false } };
        return { filter, update: { $set: { planLimits: brought } } };
      });
      return before;
    },
    async remove(id) {
      const lease = fieldOf(id);
      await record.write({ [lease]: { $exists: true } }, { $unset: { [lease]: "" } });
    },
    async vacate(id, share) {
      const lease = fieldOf(id);
      const update = { $unset: { [lease]: "" }, $set: { [`vacant.${share.slot}`]: share } } as const;
      await record.write({ [lease]: { $exists: true } }, update);
    },
    async takeOver(id, { slot, place, of }) {
      const [lease, vacant] = [fieldOf(id), `vacant.${slot}`] as const;
      const isSame = { [`${vacant}.place`]: { $eq: place }, [`${vacant}.of`]: { $eq: of } };
      const update = { $unset: { [vacant]: "" }, $set: { [`${lease}.share`]: { slot, place, of } } } as const;
      const mayTake = { [lease]: { $exists: true }, [`${lease}.share`]: { $exists: false } };
      return (await record.write({ ...isSame, ...mayTake }, update)) !== undefined;
    },
    async dropVacant(slot) {
      const vacant = `vacant.${slot}` as const;
      await record.write({ [vacant]: { $exists: true } }, { $unset: { [vacant]: "" } });
    },
    async removeUnchanged(id, { n }) {
      const lease = fieldOf(id);
      const unchanged = { [`${lease}.n`]: { $eq: n } };
      return (await record.write(unchanged, { $unset: { [lease]: "" } })) !== undefined;
    },
  };
}

/** The one document, as it was last seen, and the ways to write it. */
class ControlRecord {
  readonly #control: Collections["control"];
  readonly #call: StoreCall;
  readonly #readRecent = createRecentReader();
  /** The document of the last reply. A write that begins with it saves a read. */
  #latest: ControlDocument | undefined;

  constructor(control: Collections["control"], call: StoreCall) {
    this.#control = control;
    this.#call = call;
  }

  /** The next `writeFrom` begins with a read. */
  forget(): void {
    this.#latest = undefined;
  }

  async read(options: ReadConcernOptions): Promise<ControlDocument | undefined> {
    const found = await this.#call(() => this.#control.findOne(only, options));
    return found ? this.#checked(found) : undefined;
  }

  async write(
    filter: Filter<ControlDocument>,
    update: UpdateFilter<ControlDocument>,
  ): Promise<ControlDocument | undefined> {
    const all = { $and: [only, filter] };
    const written = await this.#call(() =>
      this.#control.findOneAndUpdate(all, update, { returnDocument: "after" }),
    );
    return written ? this.#checked(written) : undefined;
  }

  /**
   * Writes what depends on the document's contents, on the condition that they are still the same;
   * undefined: nothing is left to write. A miss means that another instance's write came first, so
   * all of them together go on.
   */
  async writeFrom(changeOf: (base: ControlDocument) => Change | undefined): Promise<ControlDocument> {
    let base = this.#latest ?? (await this.#readNewest());
    for (let tries = 0; tries < bounds.controlTriesMax; tries++) {
      const change = changeOf(base);
      if (!change) return base;
      const { filter, update } = change;
      const written = await this.write({ $and: [{ seq: { $eq: base.seq } }, filter] }, update);
      if (written) return written;
      base = await this.#readNewest();
    }
    throw unavailable({ cause: new Error("other instances were faster to write the control document") });
  }

  viewOf({ seq, recent, leases, planLimits, vacant }: ControlDocument): ControlView {
    return {
      seq,
      recent: this.#readRecent(seq, recent),
      leases: Object.entries(leases)
        .map(([id, lease]) => ({ id, ...lease }))
        .sort((one, other) => one.order - other.order),
      ...(planLimits && { planLimits }),
      ...(Object.keys(vacant).length > 0 && { vacant: Object.values(vacant) }),
    };
  }

  /** Reads also what has not reached a majority yet, and makes the document where there is none. */
  async #readNewest(): Promise<ControlDocument> {
    const local = { readConcern: { level: "local" } } as const;
    const found = await this.read(local);
    if (found) return found;
    try {
      await this.#call(() => this.#control.insertOne({ ...empty }));
    } catch (thrown) {
      if (!isDuplicate(thrown)) throw thrown;
    }
    return (await this.read(local)) ?? this.#checked({ ...empty });
  }

  #checked(document: ControlDocument): ControlDocument {
    this.#latest = checkRecord(controlDocument, document, "control");
    return this.#latest;
  }
}

interface Change {
  readonly filter: Filter<ControlDocument>;
  readonly update: UpdateFilter<ControlDocument>;
}

const only = { _id: { $eq: "control" } } as const;
const empty: ControlDocument = { _id: "control", seq: 0, joined: 0, recent: "", leases: {}, vacant: {} };

/** Ids become names of fields, which must not hold a dot or a dollar sign. */
function fieldOf(id: string): `leases.${string}` {
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id)) return `leases.${id}`;
  throw fail("INTERNAL", { cause: new Error("an instance's id is not a UUID") });
}

function idTaken(id: string) {
  return fail("INTERNAL", { cause: new Error(`the instance ${id} is registered already`) });
}

function tooMany() {
  const cause = new Error(`the fleet has ${bounds.controlLeasesMax} instances, and no more may join`);
  return unavailable({ cause });
}
