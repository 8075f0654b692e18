import type { Clock } from "./clock.ts";
import { bounds } from "./config.ts";
import { localOwner } from "./signin/local-links.ts";
import type { Stores } from "./store/stores.ts";

/**
 * What a new store starts with, so that the first run is one command away: the app `echo`, and in the embedded store
 * the team `demo` with the owner, whom one-time links sign in, as its member. Whoever starts at the same time may seed
 * too; what is there stays.
 */
export async function seed(
  stores: Pick<Stores, "apps" | "teams" | "members" | "preview">,
  { clock, withDemoTeam }: { clock: Clock; withDemoTeam: boolean },
): Promise<void> {
  const createTimeMs = clock.unixMs();
  if (withDemoTeam) {
    await stores.teams.insert({ id: "demo", displayName: "Demo", plan: "free", createTimeMs, version: 1 });
    const { email } = localOwner;
    await stores.members.add({ teamId: "demo", email, createTimeMs });
    await stores.preview.set(email, true);
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
