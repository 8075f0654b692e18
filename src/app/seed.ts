import type { Clock } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import { localOwner } from "../sign-in/local-links.ts";
import type { Stores } from "../store/stores.ts";
import type { Membership } from "./membership.ts";

/**
 * Writes what a new store starts with, so that the first run is one command away: the app `echo`.
 * In the embedded store it also writes the team `demo`, with the owner as its member; one-time
 * links sign the owner in. Another instance that starts at the same time may seed too: records that
 * exist stay as they are.
 */
export async function seed(
  stores: Pick<Stores, "apps" | "teams" | "members" | "preview">,
  parts: { clock: Clock; changeSecurityState: Membership["changeSecurityState"]; withDemoTeam: boolean },
): Promise<void> {
  const { clock, changeSecurityState, withDemoTeam } = parts;
  const createTimeMs = clock.unixMs();
  if (withDemoTeam) {
    const team = { id: "demo", displayName: "Demo", plan: "free", createTimeMs } as const;
    await changeSecurityState("team", async () => granted(await stores.teams.insert(team)));
    const { email } = localOwner;
    await stores.members.add({ teamId: "demo", email, createTimeMs });
    await changeSecurityState("preview", async () => {
      await stores.preview.set(email, true);
      return { id: email };
    });
  }
  const echo = {
    id: "echo",
    displayName: "Echo",
    backend: { kind: "echo" },
    timeoutMs: bounds.appTimeoutMsMax,
    streamTimeoutMs: bounds.appStreamTimeoutMsDefault,
    teamIds: [],
    createTimeMs,
  } as const;
  await changeSecurityState("app", async () => granted(await stores.apps.insert(echo)));
}

function granted(record: { readonly id: string; readonly version: number } | undefined) {
  return record && { id: record.id, version: record.version, grants: true };
}
