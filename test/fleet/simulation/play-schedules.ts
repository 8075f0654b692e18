import { expect } from "vitest";
import { printFigures, testSize } from "../../harness/test-size.ts";
import { unmutated } from "./mutants.ts";
import { playSchedule } from "./schedule.ts";

/** How many schedules all files together play, with the seeds from 1 on. */
const schedules = testSize("KEYRUN_TEST_FLEET_SCHEDULES", 20_000);
/** Only this schedule is played; 0: all. */
const onlySeed = testSize("KEYRUN_TEST_FLEET_SEED", 0);

/** Ends with the first schedule that goes wrong. */
interface Played {
  readonly played: number;
  readonly admitted: number;
  readonly oks: number;
  readonly lapsed: number;
  /** The seed and what went wrong, in words; undefined: nothing did. */
  readonly failure: string | undefined;
}

/** Plays every `of`-th schedule, from the seed `first` on. */
async function playSchedules(part: { readonly first: number; readonly of: number }): Promise<Played> {
  const total = { played: 0, admitted: 0, oks: 0, lapsed: 0 };
  const { stackTraceLimit } = Error;
  // Refusals are common here, and nobody reads where they come from.
  Error.stackTraceLimit = 0;
  try {
    for (const seed of seedsOf(part)) {
      const { violations, counts } = await playSchedule(seed, unmutated);
      total.played += 1;
      total.admitted += counts.admitted;
      total.oks += counts.oks;
      total.lapsed += counts.lapsed;
      if (violations.length > 0) {
        const replay = `KEYRUN_TEST_FLEET_SEED=${seed} replays it`;
        return { ...total, failure: `seed ${seed}: ${violations.join("; ")}. ${replay}.` };
      }
      // Lets the test runner speak.
      if (total.played % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
  return { ...total, failure: undefined };
}

function* seedsOf({ first, of }: { readonly first: number; readonly of: number }): Generator<number> {
  if (onlySeed > 0) yield onlySeed;
  else for (let seed = first; seed <= schedules; seed += of) yield seed;
}

/** Plays every `of`th schedule from the seed `first` on. In none is a request admitted too late. */
export async function expectNoneTooLate(seeds: {
  readonly first: number;
  readonly of: number;
}): Promise<void> {
  const { failure, played, admitted, oks, lapsed } = await playSchedules(seeds);
  expect(failure).toBeUndefined();
  expect(Math.min(admitted, oks, lapsed)).toBeGreaterThan(0);
  printFigures(
    `${played} schedules of a fleet: ${oks} changes got OK, ${lapsed} times a change waited until a lease was over, ${admitted} requests were admitted, none too late`,
  );
}

/** How long a test of them may take. */
export const schedulesMsMax = 120_000 + 20 * schedules;
