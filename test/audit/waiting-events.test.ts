import { expect, test } from "vitest";
import { auditBounds } from "#src/audit/audit-store.ts";
import { createJoinedAttempts } from "#src/audit/waiting-events.ts";

const attempt = {
  ...({ actor: "unknown", address: "203.0.113.7", channel: "rpc", action: "key.create" } as const),
  ...({ outcome: "refused", reason: "INVALID_CREDENTIAL", detail: "" } as const),
};

function joined() {
  const events: { action: string; address: string; count: number; timeMs: number }[] = [];
  const clock = { nowMs: 3_600_000 * 500_000, unixMs: () => clock.nowMs };
  const attempts = createJoinedAttempts({ clock, emit: (event) => void events.push(event) });
  return { attempts, events, clock };
}

test("attempts alike in one minute are one event with their number, written when the minute is over", () => {
  const { attempts, events, clock } = joined();
  const beganMs = clock.nowMs;
  for (let n = 0; n < 5; n++) attempts.add(attempt);
  attempts.add({ ...attempt, action: "key.revoke" });
  attempts.add({ ...attempt, reason: "MISSING_CREDENTIAL" });
  clock.nowMs += 59_999;
  attempts.flush();
  expect(events).toEqual([]);
  attempts.add(attempt);
  clock.nowMs += 1;
  attempts.flush();
  expect(events.map(({ count }) => count)).toEqual([6, 1, 1]);
  expect(events[0]).toMatchObject({ ...attempt, timeMs: beganMs, teamId: "", target: "", requestId: "" });
  attempts.flush();
  expect(events).toHaveLength(3);
});

test("attempts with another detail are another event", () => {
  const { attempts, events } = joined();
  for (const detail of ["cause=expired", "cause=wrong_clock", "cause=expired"]) {
    attempts.add({ ...attempt, detail });
  }
  attempts.flush({ all: true });
  expect(events).toMatchObject([
    { detail: "cause=expired", count: 2 },
    { detail: "cause=wrong_clock", count: 1 },
  ]);
});

test("a flood from any number of addresses makes a bounded number of events an hour, and all attempts are counted", () => {
  const { attempts, events, clock } = joined();
  let sent = 0;
  for (let minute = 0; minute < 60; minute++) {
    for (let n = 0; n < 2_000; n++, sent++) attempts.add({ ...attempt, address: `address ${sent}` });
    clock.nowMs += 60_000;
  }
  attempts.flush();
  expect(events).toHaveLength(auditBounds.joinedEventsPerHourMax);
  expect(events.reduce((sum, { count }) => sum + count, 0)).toBe(sent);
  expect(events.at(-1)).toMatchObject({ action: "attempts.more", actor: "unknown", address: "" });
  attempts.add(attempt);
  attempts.flush({ all: true });
  expect(events.at(-1)).toMatchObject({ action: "key.create", count: 1 });
});
