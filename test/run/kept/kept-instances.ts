import { randomUUID } from "node:crypto";
import { ByteBudget } from "#src/limit/byte-budget.ts";
import { fail, Refusal } from "#src/refusal/refusal.ts";
import { claimOf } from "#src/run/kept/idempotency-key.ts";
import { createKeptRuns } from "#src/run/kept/kept-runs.ts";
import type { RunStore } from "#src/run/kept/run-store.ts";
import type { KeptRequest } from "#src/run/kept/runs-under-way.ts";
import { createRunSlots } from "#src/run/run-slots.ts";
import type { Run, Runner, RunOutput } from "#src/run/runner.ts";
import { createWatchRights } from "#src/run/watch-rights.ts";
import { textOf } from "../../harness/app-backends.ts";
import { createManualClock } from "../../harness/manual-clock.ts";
import { serviceCall } from "../../harness/service-call.ts";
import { newAppOf } from "../../harness/store-records.ts";

export const app = { ...newAppOf({ id: "counted", timeoutMs: 10_000 }), version: 1 };

/** The app of all instances: a text that begins with `wait` is answered when it is released. */
export function startApp() {
  const starts = new Map<string, number>();
  const held = new Map<string, PromiseWithResolvers<string>>();
  return {
    starts: (text: string) => starts.get(text) ?? 0,
    isHeld: (text: string) => held.has(text),
    /** Answers, or ends with this. */
    release(text: string, thrown?: Error) {
      const waiting = held.get(text);
      held.delete(text);
      if (thrown) waiting?.reject(thrown);
      else waiting?.resolve(text.toUpperCase());
    },
    /** Ends what waits, as the runner's `close` does. */
    end() {
      for (const waiting of held.values()) waiting.reject(cutOff());
      held.clear();
    },
    async run({ text = "", signal }: Run): Promise<RunOutput> {
      starts.set(text, (starts.get(text) ?? 0) + 1);
      if (!text.startsWith("wait")) return { text: text.toUpperCase() };
      const waiting = Promise.withResolvers<string>();
      held.set(text, waiting);
      signal.addEventListener("abort", () => {
        held.delete(text);
        waiting.reject(signal.reason);
      });
      return { text: await waiting.promise };
    },
  };
}

/** What a test may do to an instance. */
export interface Ways {
  /** Undefined: it has lost its lease. */
  owner: string | undefined;
  /** Those that are registered now; undefined while this one can't tell. */
  live: ReadonlySet<string> | undefined;
}

/** An instance of a fleet, or with `alone` a process that has the store for itself. */
export function keptInstance(
  store: RunStore,
  backend: { readonly run: Runner },
  { alone = false, slots = 100 } = {},
) {
  const clock = createManualClock();
  const owner = randomUUID();
  const ways: Ways = { owner, live: new Set([owner]) };
  const bytes = new ByteBudget(Number.POSITIVE_INFINITY);
  const announced: string[] = [];
  const ended: string[] = [];
  const problems: unknown[] = [];
  const runs = createKeptRuns({
    ...{ clock, store, bytes, run: backend.run, keptMs: 24 * 3_600_000 },
    slots: createRunSlots({ clock, appRunsMax: slots, runsMax: slots }),
    recordsMaxOf: async () => 10_000,
    owner: () => ways.owner,
    liveOwners: alone ? undefined : () => ways.live,
    announceEnd: (id = "") => void announced.push(id),
    watchRights: createWatchRights({ recheckMs: 1_000, mayAdmit: () => true }),
    onEnded: (state) => void ended.push(state),
    onWriteFailed: (cause) => void problems.push(cause),
  });

  function start({ key, ...order }: Order) {
    const request = {
      ...{ runId: `run_${randomUUID()}`, teamId: "demo", keyId: "k", app, listed: false },
      checkRight: async () => {},
      ...order,
    };
    const claim = key === undefined ? undefined : claimOf(key, { ...request, appId: request.app.id });
    return runs.start({ ...request, claim }, serviceCall());
  }

  return {
    ...{ clock, ways, bytes, announced, ended, problems, runs, start },
    /**
     * The answer of a run with a key, with a star if another request began it; or the reason of the
     * refusal. A repeat does not wait.
     */
    async ask(order: Order): Promise<string> {
      try {
        const { record, output } = await start(order);
        if (output) return textOf(await output);
        if (record.state === "running") return "running";
        return `${record.error?.code.toUpperCase() ?? (await runs.textOf(record.id))}*`;
      } catch (thrown) {
        return thrown instanceof Refusal ? thrown.reason : String(thrown);
      }
    },
    /** Starts a run in the background, and returns its id. */
    async startListed(text: string): Promise<string> {
      return (await start({ text, listed: true })).record.id;
    },
  };
}

export interface Order extends Partial<KeptRequest> {
  readonly text: string | undefined;
  readonly key?: string;
}

export const cutOff = () => fail("UNAVAILABLE", { mayHaveRun: true });
