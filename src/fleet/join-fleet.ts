import { StartRefused } from "../refusal/start-refused.ts";
import { createAppliedChanges } from "./applied-changes.ts";
import { createBarriers } from "./barrier.ts";
import type { ControlView, LeaseRecord } from "./control-store.ts";
import type { Fleet, FleetParts } from "./fleet.ts";
import { lapseMsOf } from "./fleet-times.ts";
import { createHeartbeat } from "./heartbeat.ts";
import { createJanitor } from "./janitor.ts";
import { createLease } from "./lease.ts";
import { createOwnRegistrations } from "./own-registrations.ts";
import { createPushes } from "./pushes.ts";
import { createRegistration } from "./registration.ts";
import { createSightings } from "./sightings.ts";
import { createStandings } from "./standings.ts";

/**
 * Registers this instance in the fleet and keeps its lease by heartbeats until `leave`. Rejects
 * with the error of the store where the registration or the first heartbeat fails, and with
 * StartRefused where this instance may not join. Later failures only end the lease: they are tried
 * again, except that an instance that may not join again ends its heartbeats.
 */
export async function joinFleet(parts: FleetParts): Promise<Fleet> {
  const { control, clock, timers, times, events = {} } = parts;
  const lease = createLease(clock, times.leaseMs);
  const applied = createAppliedChanges(parts);
  const sightings = createSightings(clock, lapseMsOf(times));
  const standings = createStandings(clock, times.standingMs);
  const registrations = createOwnRegistrations(parts.newId);
  const clean = createJanitor({ control, sightings, standings, registrations, clock, times });
  let leases: readonly LeaseRecord[] = [];

  const isOwn = registrations.has;
  const barriers = createBarriers({
    ...{ control, clock, timers, times, sightings, isOwn, events },
    onRead: (view) => learn(view),
  });

  /** Takes what any answer shows. The lease does not grow by it. */
  function learn(view: ControlView): void {
    // Before its changes count as applied: what depends on the records is acknowledged with them. A
    // late view is older than what was shown already.
    if (view.seq >= (applied.seq() ?? Number.POSITIVE_INFINITY)) parts.onView?.(view);
    // The acknowledgement should not wait for the next regular heartbeat.
    if (applied.take(view)) heartbeat.soon();
    sightings.see(view);
    barriers.take(view);
  }

  const registration = createRegistration({
    ...{ ...parts, events, lease, applied, registrations },
    onJoined: standings.joined,
    takeView(view) {
      leases = view.leases;
      standings.see(view);
      learn(view);
      clean(view);
      void takeOver(view);
    },
  });

  let isTakingOver = false;
  /** While this instance has no share of the limits, it takes that of one that has left. */
  async function takeOver({ vacant: [share] = [] }: ControlView): Promise<void> {
    const id = registration.ownId();
    // An instance alone counts by itself, and leaves shares to the next fleet.
    if (parts.facts.alone || isTakingOver || id === undefined || !share || standings.standingOf(id)) return;
    isTakingOver = true;
    const isTaken = await control.takeOver(id, share).catch(() => false);
    isTakingOver = false;
    // The next view shows it, or what else is vacant.
    if (isTaken) heartbeat.soon();
  }

  const pushes = createPushes({
    ...{ control, clock, events, pass: barriers.pass },
    onPushed(view) {
      learn(view);
      parts.nudge(othersAddresses(view, isOwn));
    },
  });

  const heartbeat = createHeartbeat({
    ...{ clock, timers, beatMs: times.beatMs },
    async step() {
      await registration.beat();
      pushes.repeat();
    },
    onFailed(cause) {
      if (cause instanceof StartRefused) endRefused(cause.message);
      else events.onBeatFailed?.(cause);
    },
  });

  /** Another try would only count as one more instance among the others for a while. */
  function endRefused(words: string): void {
    registration.end();
    void heartbeat.stop();
    events.onRefused?.(words);
  }

  async function leave(): Promise<void> {
    const id = registration.ownId();
    const share = parts.handsShareOver?.() ? standings.shareOf(id) : undefined;
    registration.end();
    await heartbeat.stop();
    await pushes.idle();
    if (id === undefined) return;
    // Where it can't be removed, it lapses by itself.
    await (share ? control.vacate(id, share) : control.remove(id)).catch(() => {});
  }

  try {
    await registration.register();
    await registration.beat();
  } catch (cause) {
    await leave();
    throw cause;
  }
  heartbeat.start();
  return {
    holds: lease.holds,
    leftMs: lease.leftMs,
    announce: pushes.announce,
    nudged: heartbeat.soon,
    members: () => ({ ownId: registration.ownId(), leases }),
    standing: () => standings.standingOf(registration.ownId()),
    leave,
  };
}

function othersAddresses({ leases }: ControlView, isOwn: (id: string) => boolean): string[] {
  return leases.flatMap(({ id, state, facts }) =>
    state === "live" && facts.address !== null && !isOwn(id) ? [facts.address] : [],
  );
}
