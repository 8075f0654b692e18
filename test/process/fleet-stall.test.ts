import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Fleet, startFleet } from "../harness/fleet.ts";
import { type Answer, type FleetCaller, openFleetCaller } from "../harness/fleet-caller.ts";
import { missingFleetPrograms } from "../harness/fleet-programs.ts";
import type { manage } from "../harness/keyrun.ts";
import { mongodbUri } from "../harness/mongo-databases.ts";
import { stallOnSignal } from "../harness/stall-on-signal.ts";
import { printFigures } from "../harness/test-size.ts";

/** Longer than the lease of 5 s, and than the others need to take the instance for dead. */
const stallMs = 8_000;
/** A heartbeat with its answer, a look at what is late, and what a busy machine adds. */
const backMsMax = 3_000;
/** Far fewer, with both keys, than an address gets served after a stall. */
const atOnce = 4;

let fleet: Fleet;
let other: ReturnType<typeof manage>;
let caller: FleetCaller;

const use = (value: string) => caller.use("rest", value);
const usesAtOnce = (value: string) => Promise.all(Array.from({ length: atOnce }, () => use(value)));

async function newKey() {
  return await other.newKey(await other.newTeam());
}

/** Uses the key until it is not answered 503 any more. */
async function usesUntilServed(value: string): Promise<Answer[]> {
  const answers = [await use(value)];
  while (answers.at(-1)?.outcome === "unavailable") {
    await pause(5);
    answers.push(await use(value));
  }
  return answers;
}

const left = mongodbUri === "" || missingFleetPrograms().length > 0;

describe.skipIf(left)("an instance whose event loop stands still for longer than its lease", () => {
  beforeAll(async () => {
    fleet = await startFleet({ size: 2, command: stallOnSignal(stallMs) });
    other = fleet.manage(1);
    const [{ publicUrl, internalUrl } = fleet.members[0]!] = fleet.members;
    caller = openFleetCaller({ publicUrl, internalUrl, serviceToken: fleet.serviceToken });
  });
  afterAll(async () => {
    caller?.close();
    await fleet?.close();
  });

  test("accepts nothing that waited for it, neither with a key that was revoked meanwhile nor with another, until its lease is renewed", {
    timeout: 60_000,
  }, async () => {
    const [revoked, kept] = [await newKey(), await newKey()];
    for (const { value } of [revoked, kept]) await usesUntilServed(value);
    // Both at once, so that every request of the stall has its connection already.
    const before = await Promise.all([revoked, kept].map(({ value }) => usesAtOnce(value)));
    expect(before.flat().every(({ outcome }) => outcome === "accepted")).toBe(true);
    fleet.members[0]!.process().kill("SIGUSR2");
    const beganMs = performance.now();
    await pause(100);
    const parked = [revoked, kept].map(({ value }) => usesAtOnce(value));
    await other.keys.revokeKey({ teamId: revoked.teamId, keyId: revoked.id });
    const revokeMs = performance.now() - beganMs;
    // The instance could not acknowledge it: the other waited for the end of its lease.
    expect(revokeMs).toBeLessThan(stallMs);
    const [ofRevoked = [], ofKept = []] = await Promise.all(parked);
    const overMs = performance.now();
    expect(overMs - beganMs).toBeGreaterThan(stallMs - 500);
    expect(new Set(ofRevoked.map(({ outcome }) => outcome))).toEqual(new Set(["unavailable"]));
    expect(new Set(ofKept.map(({ outcome }) => outcome))).toEqual(new Set(["unavailable"]));
    // What comes late may be shed. Of each key some were not: the lease was looked at.
    for (const { body } of [...ofRevoked, ...ofKept])
      expect(body).toMatch(/"code":"(?:unavailable|overloaded)"/);
    for (const answers of [ofRevoked, ofKept])
      expect(answers.some(({ body }) => body.includes('"code":"unavailable"'))).toBe(true);
    expect((await usesUntilServed(revoked.value)).at(-1)?.outcome).toBe("revoked");
    expect((await usesUntilServed(kept.value)).at(-1)?.outcome).toBe("accepted");
    const backMs = performance.now() - overMs;
    printFigures(
      `stalled for ${stallMs / 1_000} s: revoked elsewhere after ${revokeMs.toFixed(0)} ms; ${2 * atOnce} that waited got 503; back after ${backMs.toFixed(0)} ms`,
    );
    expect(backMs).toBeLessThan(backMsMax);
  });
});
