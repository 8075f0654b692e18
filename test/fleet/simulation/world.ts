import type { FleetTimes } from "#src/fleet/lease.ts";
import { createMemoryControl } from "../../harness/memory-control-store.ts";
import { createMachine } from "../../harness/simulated-machine.ts";
import { createStoreLink, type LegsOf } from "../../harness/store-link.ts";
import { createVirtualTime } from "../../harness/virtual-time.ts";
import { type Admitted, type Instance, startInstance } from "./instance.ts";
import type { Mutant } from "./mutants.ts";
import { createSimulatedRecords } from "./records.ts";

export interface WorldOptions {
  readonly times: FleetTimes;
  readonly mutant: Mutant;
  /** The rate of each instance's clock. */
  readonly rates: readonly number[];
  readonly ttlMs: number;
  readonly recentMax: number;
  /** How long an instance waits for an answer of the store. */
  readonly timeoutMs: number;
  readonly legsOf: LegsOf;
  /** How long a nudge takes; undefined: it is lost. */
  readonly nudgeMs: () => number | undefined;
  readonly timerErrorMs: () => number;
  /** After how long a process that ended is started again. */
  readonly restartMs: () => number;
  /** Called at the moment of each OK. */
  readonly onOk?: (ok: { readonly keyId: string | undefined }) => void;
}

/** What an operator asked for, and what came of it. */
export interface Asked {
  readonly askedMs: number;
  readonly machine: number;
  readonly process: number;
  outcome: "pending" | "ok" | "failed";
  endMs: number;
}

export type World = ReturnType<typeof createWorld>;

/**
 * Several instances over one store, and an observer who sees everything in real time: it notes each
 * OK, and each request that is admitted although it was sent later.
 */
export function createWorld(options: WorldOptions) {
  const time = createVirtualTime();
  const control = createMemoryControl({ recentMax: options.recentMax });
  const keys = createSimulatedRecords(time);
  const teams = createSimulatedRecords(time);
  const violations: string[] = [];
  const counts = { admitted: 0, refused: 0, oks: 0, lapsed: 0 };
  const asked: Asked[] = [];
  const okMsOf = new Map<string, number>();
  /** When it was answered that a key is replaced, and has a new expiry. */
  const replacedMsOf = new Map<string, number>();
  const planOks: { readonly okMs: number; readonly version: number }[] = [];
  let storeIsUp = true;
  let ids = 0;

  const nodes = options.rates.map((rate, index) => ({
    index,
    machine: createMachine(time, { rate, startMs: 1_000 * index, timerErrorMs: options.timerErrorMs }),
    instance: undefined as Instance | undefined,
    isCut: false,
    /** When each key was last read, by the machine's own clock. */
    readMs: new Map<string, number>(),
  }));
  type Node = (typeof nodes)[number];
  const nodeOf = (index: number): Node => nodes[index]!;

  function start(node: Node): void {
    const { machine, index } = node;
    const process = machine.process();
    const isReachable = () => storeIsUp && !node.isCut;
    node.readMs.clear();
    startInstance({
      ...{ index, machine, control, keys, teams },
      ...{ times: options.times, ttlMs: options.ttlMs, mutant: options.mutant },
      callStore: createStoreLink({ ...options, time, machine, index, isReachable }),
      newId: () => `${index}-${++ids}`,
      nudge: (addresses) => addresses.forEach((address) => void nudge(nodeOf(Number(address)))),
      onRead: ({ id }) => node.readMs.set(id, machine.clock.monotonicMs()),
      onSilent() {
        counts.lapsed += 1;
      },
    }).then(
      (instance) => {
        node.instance = instance;
      },
      () => machine.process() === process && crash(index),
    );
  }

  function nudge(node: Node): void {
    const ms = options.nudgeMs();
    if (ms === undefined) return;
    const { machine } = node;
    time.at(time.now() + ms, () => machine.deliver(machine.process(), () => node.instance?.fleet.nudged()));
  }

  function crash(index: number): void {
    const node = nodeOf(index);
    for (const one of asked) {
      if (one.outcome === "pending" && one.machine === index && one.process === node.machine.process()) {
        end(one, "failed");
      }
    }
    node.machine.crash();
    node.instance = undefined;
    time.at(time.now() + options.restartMs(), () => start(node));
  }

  function end(one: Asked, outcome: Asked["outcome"]): void {
    one.outcome = outcome;
    one.endMs = time.now();
    if (outcome === "ok") counts.oks += 1;
  }

  /** What the first OK has promised holds from then on. */
  function noteOk(msOf: Map<string, number>, keyId: string): void {
    msOf.set(keyId, Math.min(msOf.get(keyId) ?? Number.POSITIVE_INFINITY, time.now()));
    options.onOk?.({ keyId });
  }

  interface Request {
    readonly keyId: string;
    /** In real time, and by the clock of the machine when its process took the request up. */
    readonly sentMs: number;
    readonly takenMs: number;
  }

  function judge(node: Node, { keyId, sentMs, takenMs }: Request, by: Admitted): void {
    counts.admitted += 1;
    const okMs = okMsOf.get(keyId);
    const at = `at ${time.now().toFixed(1)} ms instance ${node.index} admitted a request`;
    if (okMs !== undefined && sentMs > okMs) {
      violations.push(`${at} with ${keyId}, sent at ${sentMs.toFixed(1)}, revoked at ${okMs.toFixed(1)}`);
    }
    const replacedMs = replacedMsOf.get(keyId);
    if (replacedMs !== undefined && sentMs > replacedMs && !by.isReplaced) {
      violations.push(`${at} with ${keyId} as if it had no expiry, sent at ${sentMs.toFixed(1)}`);
    }
    if (planOks.some((ok) => sentMs > ok.okMs && by.planVersion < ok.version)) {
      violations.push(
        `${at} by plan ${by.planVersion}, sent at ${sentMs.toFixed(1)} after a later plan's OK`,
      );
    }
    const ageMs = takenMs - (node.readMs.get(keyId) ?? 0);
    if (ageMs > options.ttlMs) violations.push(`${at} with ${keyId}, read ${ageMs.toFixed(1)} ms ago`);
  }

  /** Asks an instance that runs. Resolves never where it crashes meanwhile. */
  function ask(index: number, work: (instance: Instance) => Promise<() => void>): Asked {
    const { machine, instance } = nodeOf(index);
    const process = machine.process();
    const one: Asked = { askedMs: time.now(), machine: index, process, outcome: "pending", endMs: 0 };
    asked.push(one);
    if (!instance) end(one, "failed");
    else {
      machine.deliver(process, () => {
        work(instance).then(
          (note) => {
            end(one, "ok");
            note();
          },
          () => end(one, "failed"),
        );
      });
    }
    return one;
  }

  return {
    ...{ time, control, violations, counts, asked },
    size: nodes.length,
    instance: (index: number) => nodeOf(index).instance,
    start: (index: number) => start(nodeOf(index)),
    crash: (index: number) => nodeOf(index).instance && crash(index),
    freeze: (index: number) => nodeOf(index).machine.freeze(),
    thaw: (index: number) => nodeOf(index).machine.thaw(),
    stepWall: (index: number, ms: number) => nodeOf(index).machine.stepWall(ms),
    setCut(index: number, isCut: boolean) {
      nodeOf(index).isCut = isCut;
    },
    setStoreUp(isUp: boolean) {
      storeIsUp = isUp;
    },
    /** A clean stop: leaves the fleet, ends, and is started again. */
    leave(index: number) {
      const { machine, instance } = nodeOf(index);
      const process = machine.process();
      machine.deliver(process, () => {
        void instance?.fleet.leave().then(() => machine.process() === process && crash(index));
      });
    },
    request(index: number, keyId: string) {
      const node = nodeOf(index);
      const { machine } = node;
      const sentMs = time.now();
      machine.deliver(machine.process(), () => {
        const request = { keyId, sentMs, takenMs: machine.clock.monotonicMs() };
        node.instance?.admit(keyId).then(
          (by) => {
            if (by === undefined) counts.refused += 1;
            else judge(node, request, by);
          },
          () => {
            counts.refused += 1;
          },
        );
      });
    },
    revoke: (index: number, keyId: string) =>
      ask(index, async (instance) => {
        await instance.revoke(keyId);
        return () => noteOk(okMsOf, keyId);
      }),
    /** Revokes the key, or with an overlap gives it an expiry. One key is always replaced alike. */
    rotate: (index: number, keyId: string, how: { readonly hasOverlap: boolean }) =>
      ask(index, async (instance) => {
        await instance.rotate(keyId, how);
        return () => noteOk(how.hasOverlap ? replacedMsOf : okMsOf, keyId);
      }),
    changePlan: (index: number, change: { readonly grants: boolean }) =>
      ask(index, async (instance) => {
        const version = await instance.changePlan(change);
        return () => {
          if (change.grants) return;
          planOks.push({ okMs: time.now(), version });
          options.onOk?.({ keyId: undefined });
        };
      }),
  };
}
