import { expect, test } from "vitest";
import type { ControlView, LeaseRecord } from "#src/fleet/control-store.ts";
import { createSightings } from "#src/fleet/sightings.ts";
import { createWaitSet } from "#src/fleet/wait-set.ts";
import { instanceFactsOf } from "../harness/instance-facts.ts";
import { createManualClock } from "../harness/manual-clock.ts";

const lapseMs = 1_000;

function recordOf(id: string, record: Partial<LeaseRecord> = {}): LeaseRecord {
  return { id, n: 5, ack: 9, state: "live", order: 1, facts: instanceFactsOf(), ...record };
}

function viewOf(seq: number, leases: readonly LeaseRecord[]): ControlView {
  return { seq, recent: [], leases };
}

/** Waits for `a` and `b` after a push that got 10. */
function setUp() {
  const clock = createManualClock();
  const sightings = createSightings(clock, lapseMs);
  const view = viewOf(10, [recordOf("a"), recordOf("b"), recordOf("own")]);
  sightings.see(viewOf(9, view.leases));
  clock.advance(400);
  const set = createWaitSet({ seq: 10, view }, { sightings, isOwn: (id) => id === "own" });
  return { clock, sightings, set, left: () => set.left().map(({ id }) => id) };
}

test("it waits for every other lease of the push, and for each until it acknowledged this change", () => {
  const { set, left } = setUp();
  expect(left()).toEqual(["a", "b"]);
  set.take(viewOf(12, [recordOf("a", { n: 6, ack: 9 }), recordOf("b", { n: 6, ack: 10 })]));
  expect(left()).toEqual(["a"]);
  set.take(viewOf(12, [recordOf("a", { n: 7, ack: 12 })]));
  expect(left()).toEqual([]);
});

test("a record that is gone is not waited for, but a late view from before the push says nothing", () => {
  const { set, left } = setUp();
  set.take(viewOf(9, []));
  expect(left()).toEqual(["a", "b"]);
  set.take(viewOf(10, [recordOf("a")]));
  expect(left()).toEqual(["a"]);
});

test("a lease is over once its record was unchanged for the time of a lapse, also before the push", () => {
  const { clock, sightings, set, left } = setUp();
  clock.advance(100);
  sightings.see(viewOf(10, [recordOf("a"), recordOf("b", { n: 6 })]));
  expect(set.takeLapsed(clock.monotonicMs())).toBe(1_000);
  clock.advance(499);
  expect(set.takeLapsed(clock.monotonicMs())).toBe(1_000);
  clock.advance(1);
  expect(set.takeLapsed(clock.monotonicMs())).toBe(1_500);
  expect(left()).toEqual(["b"]);
});

test("a fence makes no lease longer, but shows the last heartbeat; a fenced record that is gone or acknowledged is not waited for", () => {
  const { clock, set, left } = setUp();
  clock.advance(300);
  set.fenced("a", recordOf("a", { state: "fenced" }));
  set.fenced("b", recordOf("b", { n: 6, state: "fenced" }));
  expect(set.takeLapsed(clock.monotonicMs())).toBe(1_000);
  clock.advance(300);
  expect(set.takeLapsed(clock.monotonicMs())).toBe(1_700);
  expect(left()).toEqual(["b"]);
  const another = setUp();
  another.set.fenced("a", undefined);
  another.set.fenced("b", recordOf("b", { state: "fenced", ack: 10 }));
  expect(another.left()).toEqual([]);
});

test("a late view does not make a record look unchanged for longer", () => {
  const { clock, sightings, set } = setUp();
  clock.advance(100);
  sightings.see(viewOf(10, [recordOf("a", { n: 6 }), recordOf("b", { n: 6, state: "fenced" })]));
  clock.advance(100);
  sightings.see(viewOf(10, [recordOf("a"), recordOf("b", { n: 6 })]));
  expect(set.takeLapsed(clock.monotonicMs())).toBe(1_500);
  expect(sightings.lapseTimeMs("b")).toBe(1_500);
});
