import { bounds } from "../bounds.ts";
import type { Clock } from "../clock.ts";
import { localOwner } from "../sign-in/local-links.ts";
import type { Stores } from "../store/stores.ts";
import type { Caches } from "./caches.ts";

/**
 * Writes what a new store starts with, so that the first run is one command away: the app `echo`.
 * In the embedded store it also writes the team `demo`, with the owner as its member; one-time
 * links sign the owner in. Another instance that starts at the same time may seed too: records that
 * exist stay as they are.
 */
export async function seed(
  stores: Pick<Stores, "apps" | "teams" | "members" | "preview">,
  parts: { clock: Clock; changeSecurityState: Caches["changeSecurityState"]; withDemoTeam: boolean },
): Promise<void> {
  const { clock, changeSecurityState, withDemoTeam } = parts;
  const createTimeMs = clock.unixMs();
  if (withDemoTeam) {
    const team = { id: "demo", displayName: "Demo", plan: "free", createTimeMs } as const;
    await changeSecurityState("team", () => stores.teams.insert(team));
    const { email } = localOwner;
    await stores.members.add({ teamId: "demo", email, createTimeMs });
    await changeSecurityState("preview", async () => {
      await stores.preview.set(email, true);
      return { id: email };
    });
  }
  await changeSecurityState("app", () =>
    stores.apps.insert({
      id: "echo",
      displayName: "Echo",
      backend: { kind: "echo" },
      timeoutMs: bounds.appTimeoutMsMax,
      streamTimeoutMs: bounds.appStreamTimeoutMsDefault,
      teamIds: [],
      createTimeMs,
    }),
  );
}
