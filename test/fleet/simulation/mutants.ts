import type { Clock } from "#src/base/clock.ts";
import { createFlooredCache, type FlooredCache } from "#src/cache/floored-cache.ts";
import type { ControlStore, ControlView } from "#src/fleet/control-store.ts";
import type { Fleet } from "#src/fleet/fleet.ts";
import type { FleetTimes } from "#src/fleet/lease.ts";
import type { MemoryControl } from "../../harness/memory-control-store.ts";
import type { ChangeSimulated } from "./instance.ts";
import type { SimulatedRecord } from "./records.ts";

interface Context {
  readonly clock: Clock;
  readonly times: FleetTimes;
  readonly index: number;
  readonly process: number;
  /** The control record itself, for what a wrong implementation would write into it. */
  readonly server: MemoryControl;
}

type CacheOptions = Parameters<typeof createFlooredCache<SimulatedRecord>>[0];

/** One error that breaks the protocol: parts that stand in for, or wrap, those of an instance. */
export interface Mutant {
  readonly control?: (control: ControlStore, context: Context) => ControlStore;
  readonly leaseClock?: (clock: Clock) => Clock;
  readonly newId?: (newId: () => string, context: Context) => () => string;
  readonly times?: (times: FleetTimes) => FleetTimes;
  readonly fleet?: (fleet: Fleet, context: Context) => Fleet;
  readonly cache?: (options: CacheOptions) => FlooredCache<SimulatedRecord>;
  readonly staleReads?: boolean;
  /** A registration under an id that exists writes its record anew. */
  readonly registersOver?: boolean;
  readonly revoke?: (parts: {
    readonly keyId: string;
    readonly changeSecurityState: ChangeSimulated;
    readonly setKey: (id: string) => Promise<SimulatedRecord>;
    readonly isRevoked: () => Promise<boolean>;
  }) => Promise<void>;
  readonly rotate?: (parts: {
    readonly changeSecurityState: ChangeSimulated;
    readonly newKey: () => Promise<SimulatedRecord>;
    readonly setOld: () => Promise<SimulatedRecord>;
  }) => Promise<void>;
}

export const unmutated: Mutant = {};

/** What mutants remember of an instance. */
const answeredUntilMs = new WeakMap<Context, number>();
const failedId = new WeakMap<Context, string>();

/** Every row of the table of errors, by its words there. */
export const mutants = {
  "no barrier at all": {
    fleet: (fleet) => ({ ...fleet, announce: (changes) => fleet.announce(changes, { wait: false }) }),
  },
  "key reads that may be stale": { staleReads: true },
  "a second revoke returns early": {
    async revoke({ keyId, changeSecurityState, setKey, isRevoked }) {
      if (await isRevoked()) return;
      await changeSecurityState(
        "key",
        () => setKey(keyId),
        (key) => key,
      );
    },
  },
  "serving without a lease": { fleet: (fleet) => ({ ...fleet, mayAdmit: () => true }) },
  "a silent peer is assumed dead before its lease is over": {
    // A third of it.
    times: (times) => ({ ...times, clockRateError: -0.5 }),
  },
  "a lapse counted from the first heartbeat": {
    control: (control) => ({
      ...control,
      read: async () => withoutBeats(await control.read()),
      register: async (id, facts) => withoutBeats(await control.register(id, facts)),
      async beat(id, step) {
        const view = await control.beat(id, step);
        return view && withoutBeats(view);
      },
      async push(changes) {
        const { seqs, view } = await control.push(changes);
        return { seqs, view: withoutBeats(view) };
      },
    }),
  },
  "the record of a silent peer is removed before its lease is over": {
    control: (control, { clock, times }) => {
      let pushedMs = Number.POSITIVE_INFINITY;
      return {
        ...control,
        async push(changes) {
          pushedMs = clock.monotonicMs();
          return await control.push(changes);
        },
        async read() {
          const view = await control.read();
          if (clock.monotonicMs() < pushedMs + 2 * times.beatMs) return view;
          const silent = view.leases.filter(({ ack }) => ack < view.seq);
          for (const { id } of silent) await control.remove(id);
          return view;
        },
      };
    },
  },
  "the push comes before the key's write": {
    async revoke({ keyId, changeSecurityState, setKey }) {
      await changeSecurityState("key", async () => {}, { id: keyId, version: 2 });
      await setKey(keyId);
    },
  },
  "an acknowledgement before the change is applied": {
    control: (control, { server }) => ({
      ...control,
      beat: (id, step) => control.beat(id, { ...step, ack: server.read().seq }),
    }),
  },
  "a fill that meets no floor": { cache: deletingCache },
  "a lease counted from the answer": {
    control(control, context) {
      const { clock, times } = context;
      const extend = () => answeredUntilMs.set(context, clock.monotonicMs() + times.leaseMs);
      return {
        ...control,
        async register(id, facts) {
          const view = await control.register(id, facts);
          extend();
          return view;
        },
        async beat(id, step) {
          const view = await control.beat(id, step);
          if (view) extend();
          else answeredUntilMs.delete(context);
          return view;
        },
      };
    },
    fleet: (fleet, context) => ({
      ...fleet,
      mayAdmit: () => context.clock.monotonicMs() < (answeredUntilMs.get(context) ?? 0),
    }),
  },
  "an instance's id used again after a restart": {
    registersOver: true,
    newId:
      (_, { index }) =>
      () =>
        `instance-${index}`,
  },
  "a gap in the recent changes ignored": {
    control: (control) => ({
      ...control,
      read: async () => padded(await control.read()),
      register: async (id, facts) => padded(await control.register(id, facts)),
      async beat(id, step) {
        const view = await control.beat(id, step);
        return view && padded(view);
      },
      async push(changes) {
        const { seqs, view } = await control.push(changes);
        return { seqs, view: padded(view) };
      },
    }),
  },
  "no margin for the drift of clocks": { times: (times) => ({ ...times, clockRateError: 0 }) },
  "a registration tried again with the same id": {
    registersOver: true,
    newId: (newId, context) => () => failedId.get(context) ?? newId(),
    control: (control, context) => ({
      ...control,
      async register(id, facts) {
        failedId.set(context, id);
        const view = await control.register(id, facts);
        failedId.delete(context);
        return view;
      },
    }),
  },
  "leases by the wall clock": {
    leaseClock: (clock) => ({ ...clock, monotonicMs: clock.unixMs }),
  },
  "a lifetime that a read makes longer": { cache: refreshingCache },
  "a write that goes around the one port": {
    async revoke({ keyId, setKey }) {
      await setKey(keyId);
    },
  },
  "a rotation that ends the old key around the one port": {
    async rotate({ changeSecurityState, newKey, setOld }) {
      await setOld();
      await changeSecurityState("key", newKey, (key) => ({ ...key, grants: true }));
    },
  },
  "a rotation that ends the old key as a change that grants": {
    async rotate({ changeSecurityState, newKey, setOld }) {
      await changeSecurityState(
        "key",
        async () => [await newKey(), await setOld()],
        (keys) => keys.map((key) => ({ ...key, grants: true })),
      );
    },
  },
} satisfies Record<string, Mutant>;

/** Deletes from the cache where it should raise a floor. */
function deletingCache({ clock, ttlMs, load }: CacheOptions): FlooredCache<SimulatedRecord> {
  const entries = new Map<string, { readonly record: SimulatedRecord; readonly expireMs: number }>();
  const peek = (id: string) => {
    const entry = entries.get(id);
    return entry && clock.monotonicMs() < entry.expireMs ? entry.record : undefined;
  };
  return {
    peek,
    async load(id) {
      const known = peek(id);
      if (known) return known;
      const record = await load(id);
      if (record) entries.set(id, { record, expireMs: clock.monotonicMs() + ttlMs });
      return record;
    },
    raise: (id) => void entries.delete(id),
    clear: () => entries.clear(),
  };
}

/** Its entries live on with every read. */
function refreshingCache(options: CacheOptions): FlooredCache<SimulatedRecord> {
  const cache = createFlooredCache({ ...options, ttlMs: Number.POSITIVE_INFINITY });
  const expireMs = new Map<string, number>();
  const refreshed = (id: string) => expireMs.set(id, options.clock.monotonicMs() + options.ttlMs);
  return {
    ...cache,
    peek(id) {
      if (options.clock.monotonicMs() >= (expireMs.get(id) ?? 0)) {
        cache.raise(id, 0);
        return undefined;
      }
      refreshed(id);
      return cache.peek(id);
    },
    async load(id) {
      const found = await cache.load(id);
      refreshed(id);
      return found;
    },
  };
}

/** Looks as if no instance had a heartbeat since it registered. */
function withoutBeats(view: ControlView): ControlView {
  return { ...view, leases: view.leases.map((record) => ({ ...record, n: 1 })) };
}

/** Looks as if it reached back to the first change. */
function padded(view: ControlView): ControlView {
  const missing = view.seq - view.recent.length;
  const nothing = Array.from({ length: missing }, (_, index) => ({
    ...({ kind: "key", id: "none", version: 0 } as const),
    seq: index + 1,
  }));
  return { ...view, recent: [...nothing, ...view.recent] };
}
