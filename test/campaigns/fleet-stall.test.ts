import { afterAll, beforeAll, expect, test } from "vitest";
import { figure } from "../harness/campaigns.ts";
import { eventually, whileAnswer } from "../harness/eventually.ts";
import { describeFleet, type Fleet, startFleet } from "../harness/fleet.ts";
import type { Answer, FleetCaller, FleetEntry, Outcome } from "../harness/fleet-caller.ts";
import type { manage } from "../harness/keyrun.ts";
import { stallOnSignal } from "../harness/stall-on-signal.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

/** Longer than the lease of 5 s. */
const stallMsMin = 6_000;
/** Far fewer than an address gets served after a stall. */
const atOnce = 4;

const folders = createTempFolders();
const stalling = stallOnSignal(folders.create());
let fleet: Fleet;
let other: ReturnType<typeof manage>;
let caller: FleetCaller;

const use = (value: string) => caller.use("rest", value);
/** Runs, and calls of a known service: those count by no address, so that as few are not shed. */
const usesAtOnce = async (value: string) => {
  const of = (entry: FleetEntry) =>
    Promise.all(Array.from({ length: atOnce }, () => caller.use(entry, value)));
  const [runs, calls] = await Promise.all([of("rest"), of("verify")]);
  return { runs, calls };
};

async function newKey() {
  return await other.newKey(await other.newTeam());
}

/** What the key is answered once it is not answered 503 any more. */
async function served(value: string): Promise<Outcome> {
  const isNone = whileAnswer<Answer>(({ outcome }) => outcome === "unavailable");
  return (await eventually(() => use(value), isNone)).outcome;
}

describeFleet("processes")("an instance whose event loop stands still for longer than its lease", () => {
  beforeAll(async () => {
    fleet = await startFleet({ in: "processes", size: 2, command: stalling.command });
    other = fleet.manage(1);
    caller = fleet.caller();
  });
  afterAll(async () => {
    await fleet?.close();
    folders.remove();
  });

  test("accepts nothing that waited for it, neither with a key that was revoked meanwhile nor with another, until its lease is renewed", async () => {
    const [revoked, kept] = [await newKey(), await newKey()];
    for (const { value } of [revoked, kept]) expect(await served(value)).toBe("accepted");
    // Both at once, so that every request of the stall has its connection already.
    await Promise.all([revoked, kept].map(({ value }) => usesAtOnce(value)));
    const beganMs = performance.now();
    // The OK comes while the instance stands still. It could not acknowledge the revocation: the
    // other waited for the end of its lease.
    const { parked, revokeMs } = await stalling.hold(fleet.members[0]!.process(), stallMsMin, async () => {
      const parked = [revoked, kept].map(({ value }) => usesAtOnce(value));
      await other.keys.revokeKey({ teamId: revoked.teamId, keyId: revoked.id });
      return { parked, revokeMs: performance.now() - beganMs };
    });
    const overMs = performance.now();
    const waited = await Promise.all(parked);
    for (const { runs, calls } of waited) {
      expect(new Set([...runs, ...calls].map(({ outcome }) => outcome))).toEqual(new Set(["unavailable"]));
      // What comes late may be shed, but not these: it was the lease that refused them.
      expect(calls.filter(({ body }) => body.includes("more to do"))).toEqual([]);
    }
    expect(await served(revoked.value)).toBe("revoked");
    expect(await served(kept.value)).toBe("accepted");
    const backMs = performance.now() - overMs;
    figure("stalled for", (overMs - beganMs) / 1_000, "s");
    figure("revoked elsewhere after", revokeMs, "ms");
    figure("requests that waited and got 503", 4 * atOnce);
    figure("back after", backMs, "ms");
  });
});
