import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { campaignSize, figure, timeFigures } from "../harness/campaigns.ts";
import { describeFleet, type Fleet, startFleet } from "../harness/fleet.ts";
import { type FleetCaller, type Outcome, openFleetCaller } from "../harness/fleet-caller.ts";
import type { manage } from "../harness/keyrun.ts";

const cycles = campaignSize("fleet-kills");
const writersOfMember = 2;

let fleet: Fleet;
let managements: ReturnType<typeof manage>[];
let callers: FleetCaller[];
let teamId: string;

/** Creates keys and revokes two of three at a member, until its process has ended. */
class Writes {
  readonly values = new Map<string, string>();
  readonly revoking = new Set<string>();
  readonly revoked = new Set<string>();

  get acknowledged(): number {
    return this.values.size + this.revoked.size;
  }

  async until(place: number, over: () => boolean): Promise<void> {
    const { keys } = managements[place]!;
    while (!over()) {
      // A call that fails may or may not have been done.
      await this.#some(keys).catch(() => undefined);
    }
  }

  async #some(keys: ReturnType<typeof manage>["keys"]): Promise<void> {
    for (const revoke of [false, true, true]) {
      const { key, value } = await keys.createKey({ teamId });
      const keyId = key?.id ?? "";
      this.values.set(keyId, value);
      if (!revoke) continue;
      this.revoking.add(keyId);
      await keys.revokeKey({ teamId, keyId });
      this.revoked.add(keyId);
    }
  }
}

describeFleet("processes")("three instances that create and revoke keys", () => {
  beforeAll(async () => {
    fleet = await startFleet({ in: "processes" });
    managements = fleet.members.map(({ place }) => fleet.manage(place));
    const { members, serviceToken } = fleet;
    callers = members.map(({ publicUrl, internalUrl }) =>
      openFleetCaller({ publicUrl, internalUrl, serviceToken }),
    );
    teamId = await managements[0]!.newTeam();
  });
  afterAll(async () => {
    for (const caller of callers ?? []) caller.close();
    await fleet?.close();
  });

  test(`kill -9 of an instance in the middle of writes loses and revives no key, ${cycles} times over`, {
    timeout: 180_000 + cycles * 30_000,
  }, async () => {
    const writes = new Writes();
    const startsMs: number[] = [];
    const wrong: string[] = [];
    for (let cycle = 0; cycle < cycles; cycle += 1) {
      const victim = fleet.members[cycle % 3]!;
      const before = new Set(writes.values.keys());
      const target = writes.acknowledged + 30 + ((cycle * 29) % 41);
      let over = false;
      const writing = fleet.members.flatMap(({ place }) =>
        Array.from({ length: writersOfMember }, () => writes.until(place, () => over)),
      );
      // With a pause: what looks all the time takes the processor from those that write.
      while (writes.acknowledged < target) await pause(1);
      await victim.kill();
      over = true;
      await Promise.all(writing);
      const beganMs = performance.now();
      await victim.start();
      startsMs.push(performance.now() - beganMs);
      // Each instance by itself, also the one that has just come back.
      for (const [id, value] of writes.values) {
        if (before.has(id)) continue;
        for (const [place, caller] of callers.entries()) {
          const outcome = await outcomeOf(caller, value);
          const right = writes.revoked.has(id) ? ["revoked"] : ["accepted"];
          if (writes.revoking.has(id) && !writes.revoked.has(id)) right.push("revoked");
          if (!right.includes(outcome))
            wrong.push(`${outcome} at ${place}, not ${right.join(" or ")}: ${id}`);
        }
      }
    }
    figure("creations acknowledged", writes.values.size);
    figure("revocations acknowledged", writes.revoked.size);
    figure("lost or revived", wrong.length);
    timeFigures("start to ready", startsMs);
    expect(wrong).toEqual([]);
    expect(writes.revoked.size).toBeGreaterThan(5 * cycles);
  });
});

/** Asks again while the instance is busy. */
async function outcomeOf(caller: FleetCaller, value: string): Promise<Outcome> {
  for (let tries = 1; ; tries += 1) {
    const { outcome } = await caller.use("rest", value);
    if (outcome !== "unavailable" || tries === 240) return outcome;
    await pause(250);
  }
}
