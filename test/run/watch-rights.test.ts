import { expect, onTestFinished, test } from "vitest";
import { fail, type Refusal } from "#src/refusal/refusal.ts";
import { createWatchRights } from "#src/run/watch-rights.ts";
import { soon } from "../harness/soon.ts";

function watching(check: () => void | Promise<void>) {
  const ends: string[] = [];
  const watch = createWatchRights({ recheckMs: 5 });
  const stop = watch(check, ({ reason }: Refusal) => {
    ends.push(reason);
    stop();
  });
  onTestFinished(stop);
  return { ends, stop };
}

test.each([
  ["after a look-up", () => Promise.reject(fail("REVOKED_API_KEY"))],
  [
    "at once",
    () => {
      throw fail("REVOKED_API_KEY");
    },
  ],
])("a right that is gone ends what needs it, once, where it is known %s", async (_, gone) => {
  let has = true;
  let checks = 0;
  const { ends } = watching(() => {
    checks += 1;
    return has ? undefined : gone();
  });
  await soon(() => checks).toBeGreaterThan(2);
  expect(ends).toEqual([]);
  has = false;
  await soon(() => ends).toEqual(["REVOKED_API_KEY"]);
  const before = checks;
  await soon(() => checks).toBe(before);
});

test("a right that can't be checked is not taken for gone", async () => {
  let checks = 0;
  const failures = [fail("UNAVAILABLE"), new Error("the store broke")];
  const { ends } = watching(() => {
    checks += 1;
    const failure = failures[checks % 2];
    if (checks % 4 < 2) throw failure;
    return Promise.reject(failure);
  });
  await soon(() => checks).toBeGreaterThan(8);
  expect(ends).toEqual([]);
});

test("a check that waits is not asked a second time, and does not hold up the others", async () => {
  const waits = Promise.withResolvers<void>();
  const asked = { slow: 0, fast: 0 };
  const watch = createWatchRights({ recheckMs: 5 });
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
      () => {
        asked.fast += 1;
      },
      () => {},
    ),
  ];
  onTestFinished(() => {
    for (const stop of stops) stop();
  });
  await soon(() => asked.fast).toBeGreaterThan(5);
  expect(asked.slow).toBe(1);
  waits.reject(fail("APP_NOT_FOUND"));
  await soon(() => ends).toEqual(["APP_NOT_FOUND"]);
});
