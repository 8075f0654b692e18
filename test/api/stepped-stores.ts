import { unavailable } from "#src/refusal/refusal.ts";
import type { Stores } from "#src/store/stores.ts";

/** Calls of the stores that a test can stop at, one after the other. */
export interface Steps {
  /** Wraps the stores, for `startKeyrun`. */
  readonly wrap: (stores: Stores) => Stores;
  /** Does this before the n-th of the calls from now on, n from 0, and once. */
  before(n: number, work: () => Promise<unknown>): void;
  /** From the n-th of the calls on, each fails: before it does anything, or after it did. */
  failFrom(n: number, when: "before" | "after"): void;
  /** Ends what `before` and `failFrom` began, and returns the names of the calls since then. */
  reset(): readonly string[];
}

/** `watched` names calls like `teams.update`. */
export function createSteps(watched: readonly string[]): Steps {
  let called: string[] = [];
  let visit: { n: number; work: () => Promise<unknown> } | undefined;
  let failing: { n: number; when: "before" | "after" } | undefined;

  async function step(name: string, call: () => Promise<unknown>): Promise<unknown> {
    const n = called.push(name) - 1;
    const fails = failing !== undefined && n >= failing.n;
    if (visit?.n === n) {
      const { work } = visit;
      visit = undefined;
      await work();
    }
    if (fails && failing?.when === "before") throw unavailable();
    const result = await call();
    if (fails) throw unavailable();
    return result;
  }

  const wrapPort = <P extends object>(port: string, methods: P): P =>
    new Proxy(methods, {
      get(target, method) {
        const value: unknown = Reflect.get(target, method);
        const name = `${port}.${String(method)}`;
        if (typeof value !== "function" || !watched.includes(name)) return value;
        return (...given: unknown[]) => step(name, () => Reflect.apply(value, target, given));
      },
    });

  return {
    wrap: (stores) => ({
      ...stores,
      keys: wrapPort("keys", stores.keys),
      runs: wrapPort("runs", stores.runs),
      teams: wrapPort("teams", stores.teams),
      apps: wrapPort("apps", stores.apps),
      members: wrapPort("members", stores.members),
      serviceTokens: wrapPort("serviceTokens", stores.serviceTokens),
    }),
    before(n, work) {
      called = [];
      visit = { n, work };
    },
    failFrom(n, when) {
      called = [];
      failing = { n, when };
    },
    reset() {
      visit = undefined;
      failing = undefined;
      return called;
    },
  };
}
