import type {
  BroughtPlanLimits,
  ControlStore,
  ControlView,
  HandedShare,
  InstanceFacts,
  InstanceLimits,
  LeaseRecord,
  NumberedChange,
} from "#src/fleet/control-store.ts";

const recentMax = 256;

/** The control record in memory. `now` has the steps without their promises, for simulations. */
export interface MemoryControlStore extends ControlStore {
  readonly now: MemoryControl;
}

export type MemoryControl = ReturnType<typeof createMemoryControl>;

export function memoryControlStore(options: { recentMax?: number } = {}): MemoryControlStore {
  const now = createMemoryControl(options);
  return {
    now,
    read: async () => now.read(),
    register: async (id, facts, limits) => now.register(id, facts, limits),
    beat: async (id, step) => now.beat(id, step),
    push: async (changes) => now.push(changes),
    bringPlanLimits: async (brought) => now.bringPlanLimits(brought),
    remove: async (id) => now.remove(id),
    vacate: async (id, share) => now.vacate(id, share),
    takeOver: async (id, share) => now.takeOver(id, share),
    dropVacant: async (slot) => now.dropVacant(slot),
    removeUnchanged: async (id, seen) => now.removeUnchanged(id, seen),
  };
}

/** `recentMax` changes are looked back over: a small one makes gaps common. */
export function createMemoryControl(options: { recentMax?: number } = {}) {
  let seq = 0;
  let order = 0;
  let recent: readonly NumberedChange[] = [];
  let planLimits: BroughtPlanLimits | undefined;
  const leases = new Map<string, LeaseRecord>();
  const vacant = new Map<number, HandedShare>();
  const read = (): ControlView => ({
    ...{ seq, recent, leases: [...leases.values()] },
    ...(planLimits && { planLimits }),
    ...(vacant.size > 0 && { vacant: [...vacant.values()] }),
  });
  return {
    read,
    register(id: string, facts: InstanceFacts, limits?: InstanceLimits): ControlView {
      const said = limits && { limits };
      if (!leases.has(id)) leases.set(id, { id, n: 1, ack: seq, order: ++order, facts, ...said });
      return read();
    },
    beat(id: string, { ack, nSeen, limits }: Parameters<ControlStore["beat"]>[1]): ControlView | undefined {
      const lease = leases.get(id);
      if (!lease || lease.n < nSeen) return undefined;
      leases.set(id, { ...lease, n: lease.n + 1, ack: Math.max(lease.ack, ack), ...(limits && { limits }) });
      return read();
    },
    push(changes: Parameters<ControlStore["push"]>[0]) {
      const first = seq + 1;
      const numbered = changes.map((change) => ({ ...change, seq: ++seq }));
      recent = [...recent, ...numbered].slice(-(options.recentMax ?? recentMax));
      return { seqs: { first, last: seq }, view: read() };
    },
    bringPlanLimits(brought: BroughtPlanLimits): BroughtPlanLimits | undefined {
      const before = planLimits;
      if (before && before.order >= brought.order) return undefined;
      planLimits = brought;
      return before;
    },
    remove(id: string): void {
      leases.delete(id);
    },
    vacate(id: string, share: HandedShare): void {
      if (!leases.delete(id)) return;
      vacant.set(share.slot, share);
    },
    takeOver(id: string, { slot, place, of }: HandedShare): boolean {
      const [lease, share] = [leases.get(id), vacant.get(slot)];
      if (!lease || lease.share || share?.place !== place || share.of !== of) return false;
      vacant.delete(slot);
      leases.set(id, { ...lease, share });
      return true;
    },
    dropVacant(slot: number): void {
      vacant.delete(slot);
    },
    removeUnchanged(id: string, seen: Pick<LeaseRecord, "n">): boolean {
      return leases.get(id)?.n === seen.n && leases.delete(id);
    },
    /** Returns what brings all of it back as it is now, as the restore of a backup does. */
    backUp(): () => void {
      const kept = { seq, order, recent, leases: [...leases] };
      return () => {
        ({ seq, order, recent } = kept);
        leases.clear();
        for (const [id, lease] of kept.leases) leases.set(id, lease);
      };
    },
  };
}
