import type { Readiness } from "../http/readiness.ts";

export interface SettableReadiness extends Readiness {
  /** Sets the readiness. Calls the listeners only if `ready` changes. */
  set(ready: boolean, why?: string): void;
  /**
   * Looks for an obstacle, and calls the listeners after a change. Call it regularly.
   */
  look(): void;
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
  const look = () => {
    if (isReady() === announced) return;
    announced = !announced;
    for (const listener of [...listeners]) listener();
  };
  return {
    ready: isReady,
    why: () => (ready ? obstacle() : why),
    look,
    onChange(listener) {
      // The same function passed twice counts as two listeners, so that each can be removed alone.
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
