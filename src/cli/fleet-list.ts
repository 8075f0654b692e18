/** `fleet`: what the store knows of the instances. */

import { fleetTimes } from "../fleet/lease.ts";
import { inspectStore } from "../store/open-stores.ts";
import type { SeenInstance, StoreInspection } from "../store/stores.ts";
import { readConfig, type SettingsWorld } from "./connection.ts";
import { CommandFailure } from "./failures.ts";
import { printTable } from "./table.ts";
import type { JsonOption, Terminal } from "./terminal.ts";

/**
 * Prints the instances of the fleet, by order of registration. It asks the store and none of them,
 * so it works whichever of them is in trouble.
 */
export async function listInstances(
  world: SettingsWorld,
  terminal: Terminal,
  { json }: JsonOption,
): Promise<void> {
  const store = await lookAtStore(world);
  const instances = store.registered.map(instanceOf);
  if (json) {
    return terminal.print(JSON.stringify({ fleetId: store.fleetId ?? null, instances }, null, 2));
  }
  if (instances.length === 0) return terminal.note("No instance of a fleet serves the database.");
  await printTable(
    terminal,
    columns,
    instances.map((each) => ({
      cells: [
        ...[each.address ?? "-", each.version ?? "-", each.state],
        `${(each.leaseLeftMs / 1_000).toFixed(1)} s`,
        ...[each.share ?? "-", each.limitMode ?? "-", each.redisMark ?? "-"],
      ],
      faint: each.state !== "live",
    })),
  );
}

const columns = [
  { head: "ADDRESS" },
  { head: "VERSION", spare: 4 },
  { head: "STATE" },
  { head: "LEASE LEFT" },
  { head: "SHARE", spare: 3 },
  { head: "LIMITS", spare: 2 },
  { head: "REDIS", spare: 1 },
];

/** What is known of an instance, as `--json` prints it. */
function instanceOf({ id, facts, silentMs, limits }: SeenInstance) {
  const isSilent = silentMs >= fleetTimes.leaseMs / 4;
  return {
    id,
    address: facts.address,
    version: facts.version === "" ? null : facts.version,
    state: isSilent ? "silent" : "live",
    /** At most: it counts from before the heartbeat that was seen. */
    leaseLeftMs: Math.max(0, fleetTimes.leaseMs - silentMs),
    share: limits?.share ?? null,
    limitMode: limits?.mode ?? null,
    redisMark: limits?.redisMark ?? null,
  };
}

const inspectMsMax = 5_000;

async function lookAtStore(world: SettingsWorld): Promise<StoreInspection> {
  const config = readConfig(world);
  if (config.mongodbUri === undefined) {
    throw new CommandFailure("A data folder has no fleet: set KEYRUN_MONGODB_URI to the database of one.");
  }
  return inspectStore(config, { msMax: inspectMsMax });
}
