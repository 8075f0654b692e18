import { describe, expect, test } from "vitest";
import { createKeyEvents, type KeyEvent } from "#src/keys/key-events.ts";
import { fail } from "#src/refusal/refusal.ts";
import { countTurns } from "../harness/counted-turns.ts";
import { keyRecordOf } from "../harness/store-records.ts";

const limits = { watchersMax: 3, perTeamMax: 2, queueMax: 4 };
const created = (id: string, teamId = "demo"): KeyEvent => ({
  kind: "created",
  key: keyRecordOf({ id, teamId }),
});
const long = 60_000;

describe("a watcher", () => {
  test("gets each change of its team once, in order, and none of another team", async () => {
    const events = createKeyEvents(limits);
    events.publish(created("before"));
    const watch = events.watch("demo");
    const waiting = watch.next(long);
    events.publish(created("a"));
    events.publish(created("x", "other"));
    const revoked: KeyEvent = { kind: "revoked", key: keyRecordOf({ id: "a", teamId: "demo" }) };
    events.publish(revoked);
    expect(await waiting).toEqual(created("a"));
    expect(await watch.next(long)).toEqual(revoked);
    expect(await watch.next(1)).toBe("quiet");
  });

  test("that takes its changes too slowly is ended, and the others are not", async () => {
    const events = createKeyEvents(limits);
    const [slow, quick] = [events.watch("demo"), events.watch("demo")];
    for (let n = 0; n <= limits.queueMax; n++) {
      events.publish(created(String(n)));
      expect(await quick.next(long)).toEqual(created(String(n)));
    }
    await expect(slow.next(long)).rejects.toMatchObject({
      reason: "UNAVAILABLE",
      message: expect.stringContaining("fell too far behind"),
    });
    events.publish(created("z"));
    expect(await quick.next(long)).toEqual(created("z"));
  });

  test("that is ended while it waits gets the reason at once, and the first reason counts", async () => {
    const watch = createKeyEvents(limits).watch("demo");
    const waiting = watch.next(long);
    watch.end(fail("PREVIEW_REQUIRED"));
    watch.end(fail("CANCELLED"));
    await expect(waiting).rejects.toMatchObject({ reason: "PREVIEW_REQUIRED" });
    await expect(watch.next(long)).rejects.toMatchObject({ reason: "PREVIEW_REQUIRED" });
  });
});

describe("the bounds", () => {
  test("hold for one team and for all, and a place is free again at once", () => {
    const events = createKeyEvents(limits);
    const first = events.watch("demo");
    events.watch("demo");
    expect(() => events.watch("demo")).toThrow(expect.objectContaining({ reason: "UNAVAILABLE" }));
    events.watch("other");
    expect(() => events.watch("third")).toThrow(expect.objectContaining({ reason: "UNAVAILABLE" }));
    first.end(fail("CANCELLED"));
    first.end(fail("CANCELLED"));
    events.watch("third");
    expect(() => events.watch("demo")).toThrow(expect.objectContaining({ reason: "UNAVAILABLE" }));
  });

  test("close ends all watches, and refuses new ones", async () => {
    const events = createKeyEvents(limits);
    const watches = [events.watch("demo"), events.watch("demo"), events.watch("other")];
    events.close();
    for (const watch of watches) {
      await expect(watch.next(long)).rejects.toMatchObject({ reason: "UNAVAILABLE" });
    }
    expect(() => events.watch("demo")).toThrow(expect.objectContaining({ reason: "UNAVAILABLE" }));
  });
});

test("the watchers that a change wakes are served after its own turn of the event loop", async () => {
  const events = createKeyEvents({ watchersMax: 5, perTeamMax: 5, queueMax: 1 });
  const turns = countTurns();
  const waiting = Array.from({ length: 5 }, async () => {
    await events.watch("demo").next(long);
    return turns();
  });
  events.publish(created("a"));
  expect(Math.min(...(await Promise.all(waiting)))).toBeGreaterThan(0);
});
