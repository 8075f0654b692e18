import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createStoreReadiness } from "#src/app/store-readiness.ts";
import { bounds } from "#src/bounds.ts";
import { createLog } from "#src/log/log.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const everyMs = bounds.storeCheckMs;

/** A readiness that began, on a store whose next answer the test sets. */
function begin() {
  const store = { checks: 0, fault: undefined as Error | undefined };
  const lines: string[] = [];
  const { readiness, begin } = createStoreReadiness({
    stores: {
      async check() {
        store.checks += 1;
        if (store.fault) throw store.fault;
      },
    },
    mayAdmit: () => true,
    checkLease: () => {},
    log: createLog({ level: "info", destination: { write: (line) => void lines.push(line) } }),
  });
  return { store, readiness, end: begin(), logged: () => lines.map((line) => JSON.parse(line)) };
}

test("the store is asked rarely, however often readiness is probed", async () => {
  const { store, readiness, end } = begin();
  for (const checks of [0, 1, 2]) {
    for (let n = 0; n < 500; n++) expect(readiness.ready()).toBe(true);
    await vi.advanceTimersByTimeAsync(everyMs - 1);
    expect(store.checks).toBe(checks);
    await vi.advanceTimersByTimeAsync(1);
    expect(store.checks).toBe(checks + 1);
  }
  await end();
  await vi.advanceTimersByTimeAsync(10 * everyMs);
  expect(store.checks).toBe(3);
});

test("checks that fail in a row make the process unready, which is logged once with the cause, and one that succeeds ready", async () => {
  const { store, readiness, end, logged } = begin();
  const heard: boolean[] = [];
  readiness.onChange(() => heard.push(readiness.ready()));
  store.fault = new Error("file is not a database");
  await vi.advanceTimersByTimeAsync(everyMs * (bounds.storeCheckFailuresMin - 1));
  expect(readiness.ready()).toBe(true);
  await vi.advanceTimersByTimeAsync(everyMs * 5);
  expect([readiness.ready(), readiness.why()]).toEqual([false, "the store does not answer as it should"]);
  store.fault = undefined;
  await vi.advanceTimersByTimeAsync(everyMs);
  expect(readiness.ready()).toBe(true);
  expect(heard).toEqual([false, true]);
  expect(logged()).toMatchObject([
    {
      level: "error",
      msg: expect.stringContaining("this instance is not ready"),
      cause: { message: "file is not a database" },
    },
    { level: "info", msg: expect.stringContaining("this instance is ready") },
  ]);
  await end();
});
