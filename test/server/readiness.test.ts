import { expect, test } from "vitest";
import { createReadiness } from "#src/server/readiness.ts";

test("a process is not ready until ready is set, and gives the reason when it no longer is", () => {
  const readiness = createReadiness();
  expect([readiness.ready(), readiness.why()]).toEqual([false, "starting"]);
  readiness.set(true);
  expect([readiness.ready(), readiness.why()]).toEqual([true, undefined]);
  readiness.set(false, "draining");
  expect([readiness.ready(), readiness.why()]).toEqual([false, "draining"]);
});

test("a listener is called once for each change, not without a change, and not after it was removed", () => {
  const readiness = createReadiness();
  const heard: boolean[] = [];
  const listener = () => heard.push(readiness.ready());
  const leave = readiness.onChange(listener);
  readiness.set(false, "still starting");
  expect(heard).toEqual([]);
  readiness.set(true);
  readiness.set(true);
  readiness.set(false, "draining");
  expect(heard).toEqual([true, false]);
  const leaveTwin = readiness.onChange(listener);
  leave();
  readiness.set(true);
  expect(heard).toEqual([true, false, true]);
  leaveTwin();
  readiness.set(false);
  expect(heard).toHaveLength(3);
});

test("a process that meets an obstacle is unready at once, and its listeners are called at the next check", () => {
  let obstacle: string | undefined;
  const readiness = createReadiness(() => obstacle);
  const heard: boolean[] = [];
  readiness.set(true);
  readiness.onChange(() => heard.push(readiness.ready()));
  obstacle = "the store is out of reach";
  expect(readiness.ready()).toBe(false);
  expect(readiness.why()).toBe("the store is out of reach");
  readiness.check();
  readiness.check();
  obstacle = undefined;
  expect(readiness.ready()).toBe(true);
  readiness.check();
  expect(heard).toEqual([false, true]);
});
