import type { Log } from "../log/log.ts";

/** Tells the operator when this instance may admit no more requests, and when it may again. */
export interface HoldLog {
  /** Looks whether it may. Call it regularly: a loss is no event. */
  look(): void;
  /** It may for the first time, or again after a loss that `look` may have missed, for `cause`. */
  held(cause?: unknown): void;
}

/** One line for a loss and one for its end, each with the cause. */
export function createHoldLog({
  holds,
  whyNot,
  log,
}: {
  readonly holds: () => boolean;
  /** Why it does not hold, as far as known. Asked after the loss. */
  readonly whyNot: () => unknown;
  readonly log: Pick<Log, "error" | "info">;
}): HoldLog {
  let lost: { readonly cause: unknown } | undefined;
  const held = (cause?: unknown) => {
    const facts = lost ?? (cause === undefined ? {} : { cause });
    lost = undefined;
    log.info(facts, "this instance holds its lease: it admits requests");
  };
  return {
    held,
    look() {
      if (holds() && lost) held();
      if (holds() || lost) return;
      lost = { cause: whyNot() };
      log.error(lost, "this instance has lost its lease: it refuses requests with 503");
    },
  };
}
