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
  /** Looks whether the store is still held, and tells the listeners of a change. To be called now and then. */
  look(): void;
}

/**
 * Readiness that begins as "not ready: starting". Only who starts and stops the process holds `set`. While `holds` says
 * that this process has lost its hold on the store, and so refuses every run, it is not ready whatever was set.
 */
export function createReadiness(holds: () => boolean = () => true): SettableReadiness {
  const listeners = new Set<() => void>();
  let ready = false;
  let why: string | undefined = "starting";
  let told = false;
  const isReady = () => ready && holds();
  const look = () => {
    if (isReady() === told) return;
    told = !told;
    for (const listener of [...listeners]) listener();
  };
  return {
    ready: isReady,
    why: () => (ready && !holds() ? "the store is out of reach" : why),
    look,
    onChange(listener) {
      // The same function given twice is two listeners, so that each can leave without the other.
      const own = () => listener();
      listeners.add(own);
      return () => listeners.delete(own);
    },
    set(nowReady, nowWhy) {
      ready = nowReady;
      why = nowReady ? undefined : (nowWhy ?? "not ready");
      look();
    },
  };
}
