import { bounds } from "../bounds.ts";
import type { Log } from "../log/log.ts";
import { createReadiness, type SettableReadiness, type StoreWatch, watchStore } from "../server/readiness.ts";
import type { Stores } from "../store/stores.ts";

export interface StoreReadiness {
  readonly readiness: SettableReadiness;
  /** Turns ready and watches the store, until the returned function is called. */
  begin(): () => Promise<void>;
}

/** Makes a readiness that needs the store: its lease must be valid, and it must answer. */
export function createStoreReadiness({
  stores: { check },
  mayAdmit,
  checkLease,
  log,
}: {
  readonly stores: Pick<Stores, "check">;
  readonly mayAdmit: () => boolean;
  readonly checkLease: () => void;
  readonly log: Log;
}): StoreReadiness {
  let watch: StoreWatch | undefined;
  const readiness = createReadiness(() => {
    if (!mayAdmit()) return "the store is out of reach";
    return watch?.answers() === false ? "the store does not answer as it should" : undefined;
  });

  return {
    readiness,
    begin() {
      watch = watchStore({
        check,
        everyMs: bounds.storeCheckMs,
        failuresMin: bounds.storeCheckFailuresMin,
        onChange({ answers, cause }) {
          if (answers) log.info("the store answers again: this instance is ready");
          else log.error({ cause }, "the store does not answer as it should: this instance is not ready");
          readiness.check();
        },
      });
      const recheck = () => {
        checkLease();
        readiness.check();
      };
      const checking = setInterval(recheck, bounds.readinessCheckMs).unref();
      readiness.set(true);
      return async () => {
        watch?.close();
        clearInterval(checking);
      };
    },
  };
}
