/** Whether this process is ready for work, and whether its store answers. */

import type { Readiness } from "../rpc/health.ts";

export interface SettableReadiness extends Readiness {
  /** Sets the readiness. Calls the listeners only if `ready` changes. */
  set(ready: boolean, why?: string): void;
  /** Checks for an obstacle, and calls the listeners after a change. Call it regularly. */
  check(): void;
}

/**
 * Creates a readiness that begins as "not ready: starting". Only the code that starts and stops the
 * process may call `set`. `obstacle` says in words why this process can't serve, whatever was set;
 * undefined where it can. It must be cheap.
 */
export function createReadiness(obstacle: () => string | undefined = () => undefined): SettableReadiness {
  const listeners = new Set<() => void>();
  let ready = false;
  let why: string | undefined = "starting";
  let announced = false;
  const isReady = () => ready && obstacle() === undefined;
  const check = () => {
    if (isReady() === announced) return;
    announced = !announced;
    for (const listener of [...listeners]) listener();
  };
  return {
    ready: isReady,
    why: () => (ready ? obstacle() : why),
    check,
    onChange(listener) {
      // The same function passed twice counts as two listeners, so that each can be removed alone.
      const own = () => listener();
      listeners.add(own);
      return () => listeners.delete(own);
    },
    set(nowReady, nowWhy) {
      ready = nowReady;
      why = nowReady ? undefined : (nowWhy ?? "not ready");
      check();
    },
  };
}

export interface StoreWatch {
  /** Whether the store answers, as far as the last checks tell. */
  answers(): boolean;
  close(): void;
}

/**
 * Asks a store regularly whether it answers, one check after the other. It counts as answering
 * until checks fail, and again from the first check that succeeds.
 */
export function watchStore({
  check,
  everyMs,
  failuresMin,
  onChange,
}: {
  /** Resolves where the store answers; it must end in some time. */
  readonly check: () => Promise<void>;
  /** The pause between two checks. The store is asked no more often, however often others ask. */
  readonly everyMs: number;
  /** Failures in a row before the store counts as one that does not answer. */
  readonly failuresMin: number;
  /** Called after each change of `answers`, with the cause where the store stopped to answer. */
  readonly onChange: (change: { readonly answers: boolean; readonly cause?: unknown }) => void;
}): StoreWatch {
  let failures = 0;
  let open = true;
  let timer = setTimeout(ask, everyMs).unref();

  async function ask(): Promise<void> {
    const outcome = await check().then(
      () => ({ answers: true }),
      (cause: unknown) => ({ answers: false, cause }),
    );
    if (!open) return;
    const before = failures;
    failures = outcome.answers ? 0 : failures + 1;
    if (outcome.answers ? before >= failuresMin : failures === failuresMin) onChange(outcome);
    timer = setTimeout(ask, everyMs).unref();
  }

  return {
    answers: () => failures < failuresMin,
    close() {
      open = false;
      clearTimeout(timer);
    },
  };
}
