import type { AppStore } from "./apps/app-store.ts";
import type { Clock } from "./clock.ts";
import { bounds } from "./config.ts";
import type { TeamStore } from "./teams/team-store.ts";

/**
 * What a new store starts with, so that the first run is one command away: the app `echo`, and in the embedded store
 * the team `demo`. Whoever starts at the same time may seed too; what is there stays.
 */
export async function seed(
  stores: { readonly apps: AppStore; readonly teams: TeamStore },
  { clock, withDemoTeam }: { clock: Clock; withDemoTeam: boolean },
): Promise<void> {
  const createTimeMs = clock.unixMs();
  if (withDemoTeam) {
    await stores.teams.insert({ id: "demo", displayName: "Demo", plan: "free", createTimeMs, version: 1 });
  }
  await stores.apps.insert({
    id: "echo",
    displayName: "Echo",
    backend: { kind: "echo" },
    timeoutMs: bounds.appTimeoutMsMax,
    teamIds: [],
    createTimeMs,
  });
}
