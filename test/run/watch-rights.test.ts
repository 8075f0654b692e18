import { AsyncLocalStorage } from "node:async_hooks";
import { expect, onTestFinished, test } from "vitest";
import { fail, type Refusal } from "#src/refusal/refusal.ts";
import { createWatchRights } from "#src/run/watch-rights.ts";

const mayAdmit = () => true;

function watching(check: () => Promise<void>) {
  const ends: string[] = [];
  const watch = createWatchRights({ recheckMs: 5, mayAdmit });
  const { stop } = watch(check, ({ reason }: Refusal) => {
    ends.push(reason);
    stop();
  });
  onTestFinished(stop);
  return { ends, stop };
}

test("a right that is gone ends what needs it, once", async () => {
  let has = true;
  let checks = 0;
  const { ends } = watching(async () => {
    checks += 1;
    if (!has) throw fail("REVOKED_API_KEY");
  });
  await expect.poll(() => checks).toBeGreaterThan(2);
  expect(ends).toEqual([]);
  has = false;
  await expect.poll(() => ends).toEqual(["REVOKED_API_KEY"]);
  const before = checks;
  await expect.poll(() => checks).toBe(before);
});

test("the checks for all streams belong to no request, so not to the first one", async () => {
  const request = new AsyncLocalStorage<string>();
  const seen: (string | undefined)[] = [];
  const watch = createWatchRights({ recheckMs: 5, mayAdmit });
  for (const name of ["first", "second"]) {
    const check = async () => void seen.push(request.getStore());
    request.run(name, () => onTestFinished(watch(check, () => {}).stop));
  }
  await expect.poll(() => seen.length).toBeGreaterThan(4);
  expect(new Set(seen)).toEqual(new Set([undefined]));
});

test("a right that can't be checked is not taken for gone", async () => {
  let checks = 0;
  const failures = [fail("UNAVAILABLE"), new Error("the store broke")];
  const { ends } = watching(async () => {
    checks += 1;
    throw failures[checks % 2];
  });
  await expect.poll(() => checks).toBeGreaterThan(8);
  expect(ends).toEqual([]);
});

test("a check that waits is not asked a second time, and does not hold up the others", async () => {
  const waits = Promise.withResolvers<void>();
  const asked = { slow: 0, fast: 0 };
  const watch = createWatchRights({ recheckMs: 5, mayAdmit });
  const ends: string[] = [];
  const stops = [
    watch(
      () => {
        asked.slow += 1;
        return waits.promise;
      },
      ({ reason }) => ends.push(reason),
    ),
    watch(
      async () => {
        asked.fast += 1;
      },
      () => {},
    ),
  ];
  onTestFinished(() => {
    for (const { stop } of stops) stop();
  });
  await expect.poll(() => asked.fast).toBeGreaterThan(5);
  expect(asked.slow).toBe(1);
  waits.reject(fail("APP_NOT_FOUND"));
  await expect.poll(() => ends).toEqual(["APP_NOT_FOUND"]);
});

test("a process that may not admit requests any more ends all streams, also those whose check waits", async () => {
  let holds = true;
  const watch = createWatchRights({ recheckMs: 5, mayAdmit: () => holds });
  const ends: string[] = [];
  const checks = [async () => {}, () => new Promise<void>(() => {})];
  const stops = checks.map((check, n) =>
    watch(check, ({ reason, mayHaveRun }) => {
      ends.push(`${reason} ${mayHaveRun}`);
      stops[n]?.stop();
    }),
  );
  let ticks = 0;
  const ticking = watch(
    async () => void ticks++,
    () => {},
  );
  onTestFinished(() => ticking.stop());
  await expect.poll(() => ticks).toBeGreaterThan(3);
  expect(ends).toEqual([]);
  holds = false;
  await expect.poll(() => ends).toEqual(["UNAVAILABLE true", "UNAVAILABLE true"]);
});
