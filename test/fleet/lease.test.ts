import { expect, test } from "vitest";
import { createLease } from "#src/fleet/lease.ts";
import { createManualClock } from "../harness/manual-clock.ts";

const leaseMs = 5_000;
const hourMs = 3_600_000;

/** A lease whose message was sent now, and answered `answerMs` later. */
function extended(answerMs: number) {
  const clock = createManualClock();
  const lease = createLease(clock, leaseMs);
  const sent = lease.sendTime();
  clock.advance(answerMs);
  lease.extend(sent);
  return { clock, lease };
}

test("nothing holds before the first answer", () => {
  const lease = createLease(createManualClock(), leaseMs);
  expect([lease.isValid(), lease.leftMs()]).toEqual([false, 0]);
});

test("it counts from the message, however late the answer is", () => {
  const { clock, lease } = extended(3_000);
  expect(lease.leftMs()).toBe(2_000);
  clock.advance(1_999);
  expect(lease.isValid()).toBe(true);
  clock.advance(1);
  expect([lease.isValid(), lease.leftMs()]).toEqual([false, 0]);
  expect(extended(leaseMs).lease.isValid()).toBe(false);
});

test("it counts from the message on each clock alone: the other one may step, or stand still", () => {
  const back = extended(3_000);
  back.clock.stepWall(-hourMs);
  back.clock.advance(1_999);
  expect(back.lease.isValid()).toBe(true);
  back.clock.advance(1);
  expect(back.lease.isValid()).toBe(false);
  // A machine was stopped, and its monotonic clock with it.
  const stopped = extended(3_000);
  stopped.clock.stepWall(1_999);
  expect(stopped.lease.isValid()).toBe(true);
  stopped.clock.stepWall(1);
  expect(stopped.lease.isValid()).toBe(false);
});

test("a wall clock that was set forward or back counts from the next message on", () => {
  for (const stepMs of [hourMs, -hourMs]) {
    const { clock, lease } = extended(0);
    clock.stepWall(stepMs);
    expect(lease.isValid()).toBe(stepMs < 0);
    lease.extend(lease.sendTime());
    expect(lease.leftMs()).toBe(leaseMs);
    // From then on it catches a stopped machine again.
    clock.stepWall(leaseMs - 1);
    expect(lease.isValid()).toBe(true);
    clock.stepWall(1);
    expect(lease.isValid()).toBe(false);
  }
});

test("answers out of order don't shorten it, and once it is lost only a new message brings it back", () => {
  const clock = createManualClock();
  const lease = createLease(clock, leaseMs);
  const first = lease.sendTime();
  clock.advance(1_000);
  lease.extend(lease.sendTime());
  const late = { ...first, unixMs: first.unixMs + 1_000 };
  lease.extend(late);
  expect(lease.leftMs()).toBe(leaseMs);
  lease.lose();
  expect([lease.isValid(), lease.leftMs()]).toEqual([false, 0]);
  lease.extend(lease.sendTime());
  expect(lease.isValid()).toBe(true);
});
