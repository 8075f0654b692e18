import { expect, test } from "vitest";
import { createWaitSet } from "#src/fleet/barrier.ts";
import type { ControlView, LeaseRecord } from "#src/fleet/control-store.ts";
import { createLeaseObservations } from "#src/fleet/lease-observations.ts";
import { instanceFactsOf } from "../harness/instance-facts.ts";
import { createManualClock } from "../harness/manual-clock.ts";

const lapseMs = 1_000;

function recordOf(id: string, record: Partial<LeaseRecord> = {}): LeaseRecord {
  return { id, n: 5, ack: 9, order: 1, facts: instanceFactsOf(), ...record };
}

function viewOf(seq: number, leases: readonly LeaseRecord[]): ControlView {
  return { seq, recent: [], leases };
}

/** Waits for `a` and `b` after a push that got 10. `left` ends the wait for those that are left. */
function setUp() {
  const clock = createManualClock();
  const observations = createLeaseObservations(clock, lapseMs);
  const view = viewOf(10, [recordOf("a"), recordOf("b"), recordOf("own")]);
  observations.see(viewOf(9, view.leases));
  clock.advance(400);
  const set = createWaitSet({ seq: 10, view }, { observations, isOwn: (id) => id === "own" });
  return { clock, observations, set, left: () => set.takeLapsed(Infinity).map(({ id }) => id) };
}

test("it waits for every other lease of the push, and for each until it acknowledged this change", () => {
  expect(setUp().left()).toEqual(["a", "b"]);
  const { set, left } = setUp();
  const one = viewOf(12, [recordOf("a", { n: 6, ack: 9 }), recordOf("b", { n: 6, ack: 10 })]);
  set.take(one);
  expect(left()).toEqual(["a"]);
  const another = setUp();
  another.set.take(one);
  another.set.take(viewOf(12, [recordOf("a", { n: 7, ack: 12 })]));
  expect(another.set.nextLapseMs()).toBeUndefined();
});

test("a record that is gone is not waited for, but a late view from before the push says nothing", () => {
  const { set, left } = setUp();
  set.take(viewOf(9, []));
  expect(set.nextLapseMs()).toBe(1_000);
  set.take(viewOf(10, [recordOf("a")]));
  expect(left()).toEqual(["a"]);
});

test("a lease is over the time of a lapse after its last heartbeat before the push, whatever comes later", () => {
  const { clock, observations, set } = setUp();
  expect(set.nextLapseMs()).toBe(1_000);
  clock.advance(599);
  // It went on, and what it went on with is answered with the change.
  const later = viewOf(10, [recordOf("a"), recordOf("b", { n: 6 })]);
  observations.see(later);
  set.take(later);
  expect(set.takeLapsed(clock.monotonicMs())).toEqual([]);
  clock.advance(1);
  expect(set.takeLapsed(clock.monotonicMs()).map(({ id }) => id)).toEqual(["a", "b"]);
  expect(set.nextLapseMs()).toBeUndefined();
});

test("a record that was not seen before the push is waited for from then on", () => {
  const clock = createManualClock();
  const observations = createLeaseObservations(clock, lapseMs);
  clock.advance(400);
  const set = createWaitSet(
    { seq: 10, view: viewOf(10, [recordOf("a")]) },
    { observations, isOwn: () => false },
  );
  expect(set.nextLapseMs()).toBe(1_400);
});

test("a late view does not make a record look unchanged for longer", () => {
  const { clock, observations } = setUp();
  clock.advance(100);
  observations.see(viewOf(10, [recordOf("a", { n: 6 }), recordOf("b", { n: 6 })]));
  clock.advance(100);
  observations.see(viewOf(10, [recordOf("a"), recordOf("b", { n: 6 })]));
  expect([observations.lapseTimeMs("a"), observations.lapseTimeMs("b")]).toEqual([1_500, 1_500]);
});
