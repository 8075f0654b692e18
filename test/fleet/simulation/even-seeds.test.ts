import { test } from "vitest";
import { expectNoneTooLate, schedulesMsMax } from "./play-schedules.ts";

test(
  "after the OK of a change no request that was sent later is admitted, in every schedule with an even seed",
  () => expectNoneTooLate({ first: 2, of: 2 }),
  schedulesMsMax,
);
