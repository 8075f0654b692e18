import type { UsagePoint } from "../../api/messages.ts";
import { wholeNumber } from "../../time/local-format.ts";
import { requestCount } from "../usage-words.ts";

/** The requests of one step, apart by what became of them. */
export interface UsageNumbers {
  readonly startMs: number;
  /** Requests that the app answered. */
  readonly answered: number;
  /** Requests that the app failed. */
  readonly failed: number;
  /** Requests that a limit refused. */
  readonly limited: number;
  /** How long the app took for a request, in milliseconds; null without one. */
  readonly meanMs: number | null;
}

export function usageNumbers(point: UsagePoint): UsageNumbers {
  const accepted = Number(point.acceptedCount ?? 0);
  const failed = Math.min(Number(point.failedCount ?? 0), accepted);
  return {
    startMs: point.startTime === undefined ? 0 : Date.parse(point.startTime),
    answered: accepted - failed,
    failed,
    limited: Number(point.limitedCount ?? 0),
    meanMs: accepted === 0 ? null : (Number.parseFloat(point.appDuration ?? "0s") * 1_000) / accepted,
  };
}

export function requestsOf({ answered, failed, limited }: UsageNumbers): number {
  return answered + failed + limited;
}

/** The sum of some steps, from the start of the first. */
export function usageSum(steps: readonly UsageNumbers[]): UsageNumbers {
  const sum = (of: (step: UsageNumbers) => number) => steps.reduce((all, step) => all + of(step), 0);
  return {
    startMs: steps[0]?.startMs ?? 0,
    answered: sum(({ answered }) => answered),
    failed: sum(({ failed }) => failed),
    limited: sum(({ limited }) => limited),
    meanMs: null,
  };
}

/** "120 requests, 3 refused by the limit, 1 failed". */
export function numbersInWords(numbers: UsageNumbers): string {
  const all = requestsOf(numbers);
  return [
    all === 0 ? "No requests" : requestCount(all),
    numbers.limited > 0 && `${wholeNumber(numbers.limited)} refused by the limit`,
    numbers.failed > 0 && `${wholeNumber(numbers.failed)} failed`,
  ]
    .filter((part) => part !== false)
    .join(", ");
}

/** The top of the scale: the least of 2, 4, 10, 20, 40 and so on that holds all steps. */
export function scaleMax(steps: readonly UsageNumbers[]): number {
  const most = Math.max(2, ...steps.map(requestsOf));
  const ten = 10 ** Math.floor(Math.log10(most));
  // Each is even, so that the middle of the scale is a whole number, too.
  return [1, 2, 4, 10].map((part) => part * ten).find((top) => most <= top && top % 2 === 0) ?? most;
}
