import type { Log } from "../log/log.ts";

/** Logs when this instance may admit no more requests, and when it may again. */
export interface LeaseLog {
  /** Checks whether it may. Call it regularly: a loss is no event. */
  check(): void;
  /** It may for the first time, or again after a loss that `check` may have missed, for `cause`. */
  taken(cause?: unknown): void;
}

/** One line for a loss and one for its end, each with the cause. */
export function createLeaseLog({
  mayAdmit,
  whyNot,
  log,
}: {
  readonly mayAdmit: () => boolean;
  /** Why it may not, as far as known. Asked after the loss. */
  readonly whyNot: () => unknown;
  readonly log: Pick<Log, "error" | "info">;
}): LeaseLog {
  let lost: { readonly cause: unknown } | undefined;
  const taken = (cause?: unknown) => {
    const facts = lost ?? (cause === undefined ? {} : { cause });
    lost = undefined;
    log.info(facts, "this instance holds its lease: it admits requests");
  };
  return {
    taken,
    check() {
      if (mayAdmit() && lost) taken();
      if (mayAdmit() || lost) return;
      lost = { cause: whyNot() };
      log.error(lost, "this instance has lost its lease: it refuses requests with 503");
    },
  };
}
