/**
 * Repeats an attempt of which the test can tell that it proved nothing: Keyrun said that it can't
 * answer now, or the world around it was disturbed. Each repeat is counted, and the reporter prints
 * their sum. An attempt that still proves nothing ends as `Undecided`: the reporter runs its test
 * once more alone, and otherwise counts it as failed.
 */
import { appendFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import { RetryInfoSchema } from "#gen/google/rpc/error_details_pb.ts";

/** Neither a proof nor a failure: every attempt was disturbed. */
export class Undecided extends Error {
  override readonly name = "Undecided";
}

/** What came of an attempt. */
export type Outcome<Value> = { readonly value: Value } | { readonly thrown: unknown };

export interface Repeating<Value> {
  /** Whether this outcome proves nothing. Another one is returned or thrown as it is. */
  readonly again: (outcome: Outcome<Value>) => boolean | Promise<boolean>;
  /** 40 if absent: with the pause 10 s, so that no outage which a user would notice is hidden. */
  readonly triesMax?: number;
  /** 250 if absent. */
  readonly pauseMs?: number;
}

export async function eventually<Value>(
  attempt: () => Promise<Value> | Value,
  { again, triesMax = 40, pauseMs = 250 }: Repeating<NoInfer<Value>>,
): Promise<Value> {
  for (let tries = 1; ; tries += 1) {
    const outcome = await outcomeOf(attempt);
    if (!(await again(outcome))) {
      if ("thrown" in outcome) throw outcome.thrown;
      return outcome.value;
    }
    if (tries === triesMax) {
      const cause = "thrown" in outcome ? outcome.thrown : outcome.value;
      throw new Undecided(`${tries} attempts proved nothing, the last one: ${wordsOf(cause)}`, { cause });
    }
    countRepeat();
    await pause(pauseMs);
  }
}

async function outcomeOf<Value>(attempt: () => Promise<Value> | Value): Promise<Outcome<Value>> {
  try {
    return { value: await attempt() };
  } catch (thrown) {
    return { thrown };
  }
}

/** One byte for each repeat, in the file that the reporter names. */
function countRepeat(): void {
  const file = process.env.KEYRUN_TEST_REPEATS;
  if (file) appendFileSync(file, ".");
}

function wordsOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : (JSON.stringify(cause) ?? String(cause));
}

/** For a call that Keyrun answers with "not now, ask again", as a caller would repeat it. */
export const whileBusy: Repeating<unknown> = {
  again: (outcome) => "thrown" in outcome && saysToAskAgain(outcome.thrown),
};

/** For an answer that is none yet. */
export function whileAnswer<Value>(isNone: (value: Value) => boolean): Repeating<Value> {
  return { again: (outcome) => "value" in outcome && isNone(outcome.value) };
}

/** Not where the connection was lost: then Keyrun itself has said nothing. */
function saysToAskAgain(thrown: unknown): boolean {
  if (!(thrown instanceof ConnectError) || thrown.code !== Code.Unavailable) return false;
  return thrown.findDetails(RetryInfoSchema).length > 0 && thrown.metadata.get("x-should-retry") !== "false";
}

/** For a story that fails while something outside of it happened, which `count` counts. */
export function whileDisturbed(count: () => number): Repeating<unknown> {
  let before = count();
  return {
    again(outcome) {
      const wasDisturbed = count() > before;
      before = count();
      return "thrown" in outcome && wasDisturbed;
    },
    triesMax: 5,
    pauseMs: 0,
  };
}

const tickMs = 10;

/**
 * For work whose other side runs in this process, too: does it again where it fails, and the event
 * loop stood still meanwhile for longer than the work can bear.
 */
export async function unlessStalled<Value>(stallMsMax: number, work: () => Promise<Value>): Promise<Value> {
  let [lastMs, stalls] = [performance.now(), 0];
  const ticking = setInterval(() => {
    const nowMs = performance.now();
    if (nowMs - lastMs > stallMsMax) stalls += 1;
    lastMs = nowMs;
  }, tickMs);
  try {
    // A stall may have let another timer go first: the pause lets this one follow.
    const attempt = async () => {
      try {
        return await work();
      } finally {
        await pause(tickMs);
      }
    };
    return await eventually(
      attempt,
      whileDisturbed(() => stalls),
    );
  } finally {
    clearInterval(ticking);
  }
}

/** Makes something by its id: a try without an answer may have made it. */
export function madeOnce(make: () => Promise<unknown>): Promise<void> {
  return doneOnce(make, Code.AlreadyExists);
}

/** The same for what deletes something. */
export function deletedOnce(remove: () => Promise<unknown>): Promise<void> {
  return doneOnce(remove, Code.NotFound);
}

/** A repeat gets the code where an earlier try was done. */
async function doneOnce(work: () => Promise<unknown>, doneCode: Code): Promise<void> {
  let tries = 0;
  await eventually(async () => {
    tries += 1;
    await work().catch((thrown) => {
      if (tries === 1 || ConnectError.from(thrown).code !== doneCode) throw thrown;
    });
  }, whileBusy);
}

/** For the calls of a client, but for those that would make or end something twice. */
export const asksAgain: Interceptor = (next) => (request) =>
  !request.stream && /^(?:Get|List|Update|Revoke|Verify)/.test(request.method.name)
    ? eventually(() => next(request), whileBusy)
    : next(request);
