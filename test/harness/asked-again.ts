import { setTimeout as pause } from "node:timers/promises";
import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import { RetryInfoSchema } from "#gen/google/rpc/error_details_pb.ts";

/** A minute and a half: an instance that is new may admit nothing for a minute without Redis. */
const asking = { triesMax: 180, pauseMs: 500 } as const;

/**
 * Asks again while Keyrun answers that it can't do it now, as its answer tells a caller to do. On a
 * busy machine an instance may be without its lease for a moment, or its store may take too long.
 * What was made without an answer is not known to the caller, and stays.
 */
export async function askedAgain<Result>(ask: () => Promise<Result>): Promise<Result> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await ask();
    } catch (thrown) {
      if (tries === asking.triesMax || !saysToAskAgain(thrown)) throw thrown;
      await pause(asking.pauseMs);
    }
  }
}

/** The same for what makes something by its id: a try without an answer may have made it. */
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
  await askedAgain(async () => {
    tries += 1;
    await work().catch((thrown) => {
      if (tries === 1 || ConnectError.from(thrown).code !== doneCode) throw thrown;
    });
  });
}

/** Not where the connection was lost: then Keyrun itself has said nothing. */
function saysToAskAgain(thrown: unknown): boolean {
  if (!(thrown instanceof ConnectError) || thrown.code !== Code.Unavailable) return false;
  return thrown.findDetails(RetryInfoSchema).length > 0 && thrown.metadata.get("x-should-retry") !== "false";
}

/** The same for the calls of a client, but for those that would make or end something twice. */
export const asksAgain: Interceptor = (next) => (request) =>
  !request.stream && /^(?:Get|List|Update|Revoke|Verify)/.test(request.method.name)
    ? askedAgain(() => next(request))
    : next(request);

/** The same for what answers, and does not throw. */
export async function againWhile<Answer>(isBusy: (answer: Answer) => boolean, ask: () => Promise<Answer>) {
  for (let tries = 1; ; tries += 1) {
    const answer = await ask();
    if (tries === asking.triesMax || !isBusy(answer)) return answer;
    await pause(asking.pauseMs);
  }
}
