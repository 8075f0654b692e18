import { expect, test } from "vitest";
import { campaignSize, figures } from "../../harness/campaigns.ts";
import { unmutated } from "./mutants.ts";
import { playSchedule } from "./schedule.ts";

/** How many schedules are played, with the seeds from 1 on. */
const schedules = campaignSize("quota-schedules");
/** Only this schedule is played, as a failure names it. */
const onlySeed = Number(process.env.KEYRUN_TEST_QUOTA_SEED ?? 0);

test(`no instance ever passes a quota, and what is lost is what a fault may lose, in ${schedules} schedules`, {
  timeout: 120_000 + 500 * schedules,
}, async () => {
  const total: Record<string, number> = { schedules: 0 };
  const [first, last] = onlySeed > 0 ? [onlySeed, onlySeed] : [1, schedules];
  const { stackTraceLimit } = Error;
  // Refusals are common here, and nobody reads where they come from.
  Error.stackTraceLimit = 0;
  try {
    for (let seed = first; seed <= last; seed += 1) {
      const { violations, totals } = await playSchedule(seed, unmutated);
      total.schedules = (total.schedules ?? 0) + 1;
      for (const [name, n] of Object.entries(totals)) total[name] = (total[name] ?? 0) + n;
      expect(violations, `KEYRUN_TEST_QUOTA_SEED=${seed} replays it`).toEqual([]);
    }
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
  expect(Math.min(...Object.values(total))).toBeGreaterThan(0);
  figures("", total);
});
