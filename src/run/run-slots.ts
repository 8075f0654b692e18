import type { AppRecord } from "../apps/app-store.ts";
import type { Clock } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import { fail } from "../refusal/refusal.ts";

/**
 * Bounds the runs at once, for each app and in all, so that one slow app can't use up memory and
 * sockets. One team can't use up an app that others share, either: it never gets the last quarter
 * of the app's slots while another team has asked for the app within `appSharedMs`. A quarter is
 * rounded down, so an app with fewer than four slots keeps none back.
 */
export interface RunSlots {
  /**
   * Takes a slot for a run of the app. Call the returned function once to give it back. Refuses
   * with APP_BUSY if no slot is free for the team.
   */
  acquire(app: Pick<AppRecord, "id" | "teamIds">, teamId: string): () => void;
}

export function createRunSlots({
  clock,
  appRunsMax,
  runsMax,
  idleAppsMax = bounds.rememberedAppsMax,
}: {
  clock: Clock;
  appRunsMax: number;
  runsMax: number;
  /** Apps that are remembered without a run, at most. */
  idleAppsMax?: number;
}): RunSlots {
  const teamRunsMax = appRunsMax - Math.floor(appRunsMax / 4);
  const apps = new Map<string, AppSlots>();
  let runs = 0;

  function slotsOf(appId: string): AppSlots {
    const known = apps.get(appId);
    if (known) return known;
    if (apps.size >= idleAppsMax + runsMax) forgetIdle(apps, clock.monotonicMs() - bounds.appSharedMs);
    const slots = new AppSlots();
    apps.set(appId, slots);
    return slots;
  }

  return {
    acquire({ id, teamIds }, teamId) {
      const slots = slotsOf(id);
      const nowMs = clock.monotonicMs();
      const othersMs = teamIds.length === 1 ? undefined : slots.othersAskedMs(teamId, nowMs);
      const isShared = othersMs !== undefined && nowMs - othersMs < bounds.appSharedMs;
      const ofTeam = slots.runsOf(teamId);
      const isBusy = slots.runs >= appRunsMax || (isShared && ofTeam >= teamRunsMax);
      if (isBusy || runs >= runsMax) throw fail("APP_BUSY");
      slots.change(teamId, +1);
      runs += 1;
      return () => {
        slots.change(teamId, -1);
        runs -= 1;
      };
    },
  };
}

/**
 * The runs of one app, and the two teams that asked for it last. Two are enough: of all teams but
 * one, the team that asked last is always among them.
 */
class AppSlots {
  runs = 0;
  /** The runs of each team. A team without runs stays until the app has none, or many teams. */
  readonly #runsByTeam = new Map<string, number>();
  #last: Asked | undefined;
  #lastOfAnother: Asked | undefined;

  /** Notes that the team asks now. Returns when another team asked last. */
  othersAskedMs(teamId: string, nowMs: number): number | undefined {
    if (this.#last?.teamId === teamId) {
      this.#last.atMs = nowMs;
    } else {
      this.#lastOfAnother = this.#last;
      this.#last = { teamId, atMs: nowMs };
    }
    return this.#lastOfAnother?.atMs;
  }

  runsOf(teamId: string): number {
    return this.#runsByTeam.get(teamId) ?? 0;
  }

  change(teamId: string, by: 1 | -1): void {
    this.runs += by;
    this.#runsByTeam.set(teamId, this.runsOf(teamId) + by);
    // Entries are removed rarely: a map that grows and shrinks with each run costs far more.
    if (this.runs === 0 && this.#runsByTeam.size > idleTeamsMax) this.#runsByTeam.clear();
    else if (this.#runsByTeam.size > 2 * this.runs + idleTeamsMax) this.#forgetIdleTeams();
  }

  isIdleSince(untilMs: number): boolean {
    return this.runs === 0 && (this.#last === undefined || this.#last.atMs <= untilMs);
  }

  #forgetIdleTeams(): void {
    for (const [teamId, runs] of this.#runsByTeam) if (runs === 0) this.#runsByTeam.delete(teamId);
  }
}

interface Asked {
  readonly teamId: string;
  atMs: number;
}

/** Teams without runs that one app remembers. */
const idleTeamsMax = 4;

/** Makes room: forgets the apps that were not run since then. If there are none, all idle ones. */
function forgetIdle(apps: Map<string, AppSlots>, untilMs: number): void {
  const sizeBefore = apps.size;
  for (const [id, slots] of apps) if (slots.isIdleSince(untilMs)) apps.delete(id);
  if (apps.size < sizeBefore) return;
  for (const [id, slots] of apps) if (slots.runs === 0) apps.delete(id);
}
