export interface StoreWatch {
  /** Whether the store answers, as far as the last checks tell. */
  answers(): boolean;
  close(): void;
}

export interface StoreWatchParts {
  /** Resolves where the store answers; it must end in some time. */
  readonly check: () => Promise<void>;
  /** The pause between two checks. The store is asked no more often, however often others ask. */
  readonly everyMs: number;
  /** Failures in a row before the store counts as one that does not answer. */
  readonly failuresMin: number;
  /** Called after each change of `answers`, with the cause where the store stopped to answer. */
  readonly onChange: (change: { readonly answers: boolean; readonly cause?: unknown }) => void;
}

/**
 * Asks a store regularly whether it answers, one check after the other. It counts as answering
 * until checks fail, and again from the first check that succeeds.
 */
export function watchStore({ check, everyMs, failuresMin, onChange }: StoreWatchParts): StoreWatch {
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
