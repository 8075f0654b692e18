import type { Clock } from "../clock.ts";
import type { Standing } from "../limit/standing.ts";
import type { ControlView } from "./control-store.ts";

/** Who shares the limits, by what the heartbeats showed. */
export interface Standings {
  /** Notes who is live in the view of a registration or heartbeat. */
  see(view: ControlView): void;
  /** This instance registered under `id` just now. */
  joined(id: string): void;
  /**
   * The place of `id`, which must be this instance's own. An instance that is no longer live counts
   * for `standingMs` more: what it admitted lately is still in the window of the limit. For the
   * same time after it joined, an instance has no place.
   */
  standingOf(id: string | undefined): Standing | undefined;
}

export function createStandings(clock: Clock, standingMs: number): Standings {
  const members = new Map<string, Member>();
  let own: { readonly id: string; readonly sinceMs: number } | undefined;
  const counts = ({ departedMs }: Member, nowMs: number) =>
    departedMs === undefined || nowMs < departedMs + standingMs;

  return {
    see({ leases }) {
      const nowMs = clock.monotonicMs();
      const live = new Map(
        leases.filter(({ state }) => state === "live").map(({ id, order }) => [id, order]),
      );
      for (const [id, order] of live) if (!members.has(id)) members.set(id, { order, departedMs: undefined });
      for (const [id, member] of members) {
        if (!live.has(id)) member.departedMs ??= nowMs;
        if (!counts(member, nowMs)) members.delete(id);
      }
    },
    joined(id) {
      own = { id, sinceMs: clock.monotonicMs() };
    },
    standingOf(id) {
      const nowMs = clock.monotonicMs();
      const self = id === undefined ? undefined : members.get(id);
      if (!self || !own || own.id !== id || nowMs < own.sinceMs + standingMs) return undefined;
      const counted = [...members.values()].filter((member) => counts(member, nowMs));
      return { place: counted.filter(({ order }) => order < self.order).length, of: counted.length };
    },
  };
}

interface Member {
  readonly order: number;
  departedMs: number | undefined;
}
