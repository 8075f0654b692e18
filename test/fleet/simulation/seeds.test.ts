import { expect, test } from "vitest";
import { campaignSize, figures } from "../../harness/campaigns.ts";
import { unmutated } from "./mutants.ts";
import { playSchedule } from "./schedule.ts";

/** How many schedules are played, with the seeds from 1 on. */
const schedules = campaignSize("schedules");
/** Only this schedule is played, as a failure names it. */
const onlySeed = Number(process.env.KEYRUN_TEST_FLEET_SEED ?? 0);

test(`after the OK of a change no request that was sent later is admitted, in ${schedules} schedules`, {
  timeout: 120_000 + 20 * schedules,
}, async () => {
  const total = { schedules: 0, "requests admitted": 0, "changes answered": 0, "leases that lapsed": 0 };
  const [first, last] = onlySeed > 0 ? [onlySeed, onlySeed] : [1, schedules];
  const { stackTraceLimit } = Error;
  // Refusals are common here, and nobody reads where they come from.
  Error.stackTraceLimit = 0;
  try {
    for (let seed = first; seed <= last; seed += 1) {
      const { violations, counts } = await playSchedule(seed, unmutated);
      total.schedules += 1;
      total["requests admitted"] += counts.admitted;
      total["changes answered"] += counts.oks;
      total["leases that lapsed"] += counts.lapsed;
      expect(violations, `KEYRUN_TEST_FLEET_SEED=${seed} replays it`).toEqual([]);
      // Lets the test runner speak.
      if (seed % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
  expect(Math.min(...Object.values(total))).toBeGreaterThan(0);
  figures("", total);
});
