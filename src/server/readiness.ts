/** Whether this process should get new work, for all who ask: `/readyz`, `grpc.health.v1`, the metrics. */
export interface Readiness {
  /** True between the end of the start and the beginning of the drain. */
  ready(): boolean;
  /** Why it is not ready, in words for the operator; undefined while it is ready. */
  why(): string | undefined;
  /** Calls the listener after each change of `ready()`, until the returned function is called. */
  onChange(listener: () => void): () => void;
}

export interface SettableReadiness extends Readiness {
  /** Says what is true from now on. Only a change of `ready` is told to the listeners. */
  set(ready: boolean, why?: string): void;
}

/** Readiness that begins as "not ready: starting". Only who starts and stops the process holds `set`. */
export function createReadiness(): SettableReadiness {
  const listeners = new Set<() => void>();
  let ready = false;
  let why: string | undefined = "starting";
  return {
    ready: () => ready,
    why: () => why,
    onChange(listener) {
      // The same function given twice is two listeners, so that each can leave without the other.
      const own = () => listener();
      listeners.add(own);
      return () => listeners.delete(own);
    },
    set(nowReady, nowWhy) {
      const changed = nowReady !== ready;
      ready = nowReady;
      why = nowReady ? undefined : (nowWhy ?? "not ready");
      if (changed) for (const listener of [...listeners]) listener();
    },
  };
}
