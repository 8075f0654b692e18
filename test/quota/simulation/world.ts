import { DatabaseSync } from "node:sqlite";
import { createLedger, type Ledger } from "#src/quota/ledger.ts";
import type { QuotaExceeded, QuotaSubject } from "#src/quota/quota.ts";
import {
  changedQuota,
  emptyQuota,
  grantQuota,
  type QuotaChange,
  type QuotaPlace,
  type QuotaRecord,
  type QuotaStore,
} from "#src/quota/quota-store.ts";
import { unavailable } from "#src/refusal/refusal.ts";
import type { QuotaLimit } from "#src/settings/config.ts";
import { createQuotaStore } from "#src/store/sqlite/quota-store.ts";
import { createSchema } from "#src/store/sqlite/schema.ts";
import { createMachine } from "../../harness/simulated-machine.ts";
import { createStoreLink, type LegsOf } from "../../harness/store-link.ts";
import { createVirtualTime } from "../../harness/virtual-time.ts";
import { type Counted, createCounts } from "./counts.ts";
import type { Mutant } from "./mutants.ts";

export const leaseMs = 5_000;
const beatMs = 300;
/** After so long in silence the others take an instance for gone. */
const lapseMs = leaseMs + 2 * beatMs;

export interface WorldOptions {
  readonly mutant: Mutant;
  /** By each instance's wall clock, at the start. */
  readonly wallsMs: readonly number[];
  readonly requestsPerMinute: number;
  readonly plan: QuotaLimit;
  /** Of the key that has a quota of its own. */
  readonly keyLimit: QuotaLimit;
  readonly timeoutMs: number;
  readonly legsOf: LegsOf;
  /** After how long a process that ended is started again. */
  readonly restartMs: () => number;
}

/** One life of an instance. */
interface Process extends Counted {
  readonly ledger: Ledger;
  ownerId: string;
  beatAtMs: number;
  /** What it admits by; undefined: the team is gone. */
  plan: QuotaLimit | undefined;
  /** How often what it held was given back as a whole. */
  drops: number;
  /** The same, and how often it was granted something. */
  turns: number;
  isClosing: boolean;
  /** What the store has told it of records; "unsure": it may not go by that. */
  readonly seen: Map<string, QuotaRecord | "unsure">;
  /** What callers wait for, by subject. */
  readonly waiting: Map<string, number>;
  /** What the fleet wants it to know with its next heartbeat. */
  readonly untold: ((process: Process) => void)[];
}

export type SubjectName = "team" | "key";
type Outcome =
  | { readonly kind: "admitted" }
  /** It was not decided. */
  | { readonly kind: "none" }
  /** By this record, and by this limit of it. */
  | { readonly kind: "exceeded"; readonly id: string; readonly limit: number };
const teamId = "demo";

export type World = ReturnType<typeof createWorld>;

/**
 * Several instances over one real store, whose network, machines and operators do what they may.
 */
export function createWorld(options: WorldOptions) {
  const { mutant, requestsPerMinute, timeoutMs, legsOf } = options;
  const time = createVirtualTime(turnsSettled);
  const db = new DatabaseSync(":memory:");
  createSchema(db);
  const real = createQuotaStore(db);
  const server = mutant.store?.(real) ?? real;
  const counts = createCounts({ requestsPerMinute });
  /** All that ever ran. */
  const all: Process[] = [];
  /** When the id of an instance had its last heartbeat. */
  const beats = new Map<string, number>();
  let plan: QuotaLimit | undefined = options.plan;
  let names = 0;

  const nodes = options.wallsMs.map((wallMs, index) => {
    const machine = createMachine(time, { rate: 1, startMs: 1_000 * index, timerErrorMs: () => 0 });
    machine.stepWall(wallMs - machine.clock.unixMs());
    return { index, machine, process: undefined as Process | undefined, isCut: false };
  });
  type Node = (typeof nodes)[number];

  const isLive = (id: string) => time.now() - (beats.get(id) ?? Number.NEGATIVE_INFINITY) < lapseMs;
  const mayAdmit = (process: Process) => time.now() - process.beatAtMs < leaseMs;

  function start(node: Node): void {
    const { machine, index } = node;
    const timers = machine.timers();
    const call = createStoreLink({ time, machine, index, timeoutMs, legsOf, isReachable: () => !node.isCut });
    const name = `i${index}-${++names}`;
    const process: Process = {
      ...{ name, ownerId: name, beatAtMs: time.now(), plan, drops: 0, turns: 0, isClosing: false },
      ...{ wallMaxMs: 0, wallMs: machine.clock.unixMs, monotonicMs: machine.clock.monotonicMs },
      ...{ accounts: new Map(), emptyMs: new Map(), ends: new Map() },
      ...{ seen: new Map(), waiting: new Map(), untold: [] },
      ledger: createLedger({
        clock: {
          monotonicMs: machine.clock.monotonicMs,
          unixMs() {
            const wallMs = machine.clock.unixMs();
            process.wallMaxMs = Math.max(process.wallMaxMs, wallMs);
            return wallMs;
          },
        },
        store: storeOf(() => process, call),
        owner: () => process.ownerId,
        isLive: mutant.isLive ?? isLive,
        onFailed() {},
      }),
    };
    node.process = process;
    all.push(process);
    beats.set(process.ownerId, time.now());
    const everyMs = (ms: number, run: () => void) => {
      run();
      timers.after(ms, () => everyMs(ms, run));
    };
    everyMs(1_000, () => mutant.sweepsNever || process.ledger.sweep());
    everyMs(beatMs, () => node.isCut || beat(process));
  }

  function beat(process: Process): void {
    if (!mayAdmit(process)) {
      // It was taken out: it forgets everything, and registers under a new id. What it held may
      // have
      // been forgotten, too.
      counts.mayLoseAll(process, (id) => waitingFor(process, id));
      process.ownerId = `${process.name}-${++names}`;
      drop(process, (ledger) => ledger.dropAll());
      process.plan = plan;
      process.untold.length = 0;
    }
    process.beatAtMs = time.now();
    beats.set(process.ownerId, time.now());
    for (const told of process.untold.splice(0)) told(process);
  }

  function drop(process: Process, work: (ledger: Ledger) => void): void {
    process.drops += 1;
    process.turns += 1;
    process.seen.clear();
    if (!mutant.dropsNothing) work(process.ledger);
  }

  /** Tells every instance. Then calls `done`, once none admits by what was before. */
  function announce(told: (process: Process) => void, done = () => {}): void {
    const asked = nodes.flatMap(({ process }) => process ?? []);
    for (const process of asked) process.untold.push(told);
    const wait = () => {
      const knows = (each: Process) => !each.untold.includes(told) || !mayAdmit(each) || !isRunning(each);
      if (asked.every(knows)) done();
      else time.at(time.now() + 50, wait);
    };
    wait();
  }

  const isRunning = (process: Process) => nodes.some((node) => node.process === process);

  /**
   * The store as a process reaches it: as MongoDB's, it reads a record and replaces what it read.
   */
  function storeOf(own: () => Process, call: ReturnType<typeof createStoreLink>): QuotaStore {
    async function changeOne(place: QuotaPlace, change: QuotaChange): Promise<QuotaRecord> {
      for (let tries = 0; tries < 50; tries++) {
        const found = await call("find", () => server.find(place.id));
        const before = found ?? emptyQuota(place);
        const next = changedQuota(before, change);
        if (!next) return before;
        if (await write(found, { before, next })) return next;
      }
      throw unavailable();
    }

    /**
     * Replaces what was found, or inserts where nothing was. False where another one came first.
     */
    async function write(
      found: QuotaRecord | undefined,
      { before, next }: { readonly before: QuotaRecord; readonly next: QuotaRecord },
    ): Promise<boolean> {
      const by = own();
      let isWaitedFor = true;
      const work = async () => {
        const now = await real.find(next.id);
        if (now?.version !== found?.version && !mutant.ignoresVersions) return false;
        await server.change([{ place: before, change: () => next }]);
        counts.given(by, next.id, next.claimed - before.claimed);
        if (!isWaitedFor) counts.late(by, next.id);
        for (const id of next.grantIds) counts.grant(next.id, id, next.granted - before.granted);
        return true;
      };
      return await call("write", work).finally(() => {
        isWaitedFor = false;
      });
    }

    return {
      ...server,
      async change(changes) {
        const by = own();
        const { turns } = by;
        const answers = await Promise.allSettled(
          changes.map(({ place, change }) => changeOne(place, change)),
        );
        for (const [n, { place }] of changes.entries()) {
          const answer = answers[n];
          if (answer?.status === "fulfilled") see(by, answer.value, turns);
          else counts.failed(by, place.id, waitingFor(by, place.id));
        }
        return answers;
      },
      async grant(place, grant) {
        const by = own();
        const record = await changeOne(place, (before) => grantQuota(before, grant));
        by.turns += 1;
        by.seen.set(place.id, "unsure");
        return record;
      },
      find: async (id) => await call("find", () => server.find(id)),
    };
  }

  /** The store answers what a process asked when it had dropped all, or was granted, so often. */
  function see(by: Process, record: QuotaRecord, turns: number): void {
    const limit = record.id.startsWith(`${teamId}/key`) ? options.keyLimit : by.plan;
    if (limit && record.claimed >= limit.requests + record.granted)
      by.emptyMs.set(record.id, by.monotonicMs());
    by.seen.set(record.id, turns === by.turns ? record : "unsure");
  }

  /** Whether a live instance beside this one holds requests, as the store said last. */
  function othersHold(by: Process, id: string): boolean | undefined {
    const seen = by.seen.get(id);
    if (seen === "unsure") return undefined;
    const holds = Object.entries(seen?.holds ?? {});
    return holds.some(([owner, unspent]) => owner !== by.ownerId && unspent > 0 && isLive(owner));
  }

  const waitingFor = ({ waiting }: Process, id: string) => waiting.get(id.slice(0, id.lastIndexOf("/"))) ?? 0;

  function subjectOf(name: SubjectName, limit: QuotaLimit): QuotaSubject {
    const subject =
      name === "team"
        ? { id: teamId, teamId, limit, requestsPerMinute }
        : { id: `${teamId}/key`, teamId, limit: options.keyLimit, requestsPerMinute };
    counts.limitMax(subject);
    return subject;
  }

  /** The highest limit by which an instance may admit now. */
  function limitNow({ id, limit }: QuotaSubject): number {
    if (id !== teamId) return limit.requests;
    const serving = nodes.flatMap(({ process }) => (process && mayAdmit(process) ? [process] : []));
    return Math.max(...serving.map((each) => (each.plan?.period === limit.period ? each.plan.requests : 0)));
  }

  function refuse(process: Process, subject: QuotaSubject, answer: QuotaExceeded, cost: number): string {
    return counts.refuse(process, subject, { ...answer, cost, othersHold: (id) => othersHold(process, id) });
  }

  /** What was claimed for a caller is left to others. */
  function goAway(process: Process, cost: number): void {
    for (const id of process.accounts.keys()) counts.unused(process, id, cost);
  }

  /**
   * As the admission: again, as often as the store must be asked. `undone`: then it is released.
   */
  async function request(
    process: Process,
    asked: { readonly names: readonly SubjectName[]; readonly cost: number; readonly undoneMs?: number },
  ): Promise<Outcome> {
    const { cost } = asked;
    let subjects: QuotaSubject[] = [];
    for (let tries = 0; tries < 20; tries++) {
      const { plan: own, drops } = process;
      if (!own || !mayAdmit(process) || process.isClosing) {
        if (tries > 0) goAway(process, cost);
        return { kind: "none" };
      }
      subjects = asked.names.map((name) => subjectOf(name, own));
      const answer = process.ledger.quotas.reserve(subjects, cost);
      if (answer instanceof Promise) {
        for (const { id } of subjects) process.waiting.set(id, (process.waiting.get(id) ?? 0) + cost);
        const isAnswered = await answer.then(
          () => true,
          () => false,
        );
        for (const { id } of subjects) process.waiting.set(id, (process.waiting.get(id) ?? 0) - cost);
        if (isAnswered) continue;
        counts.totals.unavailable += 1;
        goAway(process, cost);
        return { kind: "none" };
      }
      if (answer.kind === "exceeded") {
        // By its key: what was claimed of its team's quota stays for others.
        if (tries > 0) goAway(process, cost);
        const subject = subjects[asked.names.indexOf(answer.state.subject)]!;
        return { kind: "exceeded", id: refuse(process, subject, answer, cost), limit: limitNow(subject) };
      }
      counts.totals.admitted += 1;
      const ids = subjects.map((subject) => {
        const endMs = process.ledger.quotas.known(subject)?.resetTimeMs ?? 0;
        return counts.admit(process, subject, { cost, endMs, limit: limitNow(subject) });
      });
      const { undoneMs } = asked;
      if (undoneMs !== undefined) {
        time.at(time.now() + undoneMs, () => {
          if (!isRunning(process)) return;
          answer.release();
          if (mutant.releasesTwice) answer.release();
          for (const id of ids) counts.release(process, id, cost, process.drops !== drops);
        });
      }
      return { kind: "admitted" };
    }
    counts.violations.push(`${process.name} never claims what ${subjects.length} quotas need`);
    return { kind: "none" };
  }

  /** Its process is over, in good order or not. */
  function end(node: Node): void {
    node.machine.crash();
    node.process = undefined;
    time.at(time.now() + options.restartMs(), () => start(node));
  }

  return {
    time,
    counts,
    size: nodes.length,
    plan: () => plan,
    start: (index: number) => start(nodes[index]!),
    process: (index: number) => nodes[index]!.process,
    request,
    grant(index: number, grant: { requests: number; requestId: string }): void {
      const { process } = nodes[index]!;
      if (process?.plan)
        void process.ledger.quotas.grant(subjectOf("team", process.plan), grant).catch(() => {});
    },
    /** A lowered one passes the barrier. Some instances forget what they hold with it. */
    changePlan(next: QuotaLimit, dropsAll: boolean): void {
      if (plan === undefined) return;
      plan = next;
      announce((process) => {
        process.plan = next;
        process.drops += 1;
        process.turns += 1;
        if (dropsAll) drop(process, (ledger) => ledger.dropAll());
      });
    },
    /** As the deletion of a team: a mark that all know, the records, and then another team. */
    replaceTeam(): void {
      if (plan === undefined) return;
      const kept = plan;
      plan = undefined;
      const forget = (process: Process) => {
        process.plan = undefined;
        drop(process, (ledger) => ledger.dropTeam(teamId));
      };
      announce(forget, async () => {
        await real.deleteOfTeam(teamId, 100);
        counts.forget(all);
        announce(forget, () => {
          plan = kept;
          announce((process) => {
            process.plan = kept;
          });
        });
      });
    },
    kill(index: number): void {
      const node = nodes[index]!;
      const { process } = node;
      if (!process) return;
      counts.totals.kills += 1;
      counts.mayLoseAll(process, (id) => waitingFor(process, id));
      end(node);
    },
    /** Stops in good order: what it has begun ends first. */
    stop(index: number): void {
      const node = nodes[index]!;
      const { process } = node;
      if (!process || process.isClosing) return;
      process.isClosing = true;
      const close = () => {
        if (node.process !== process) return;
        if ([...process.waiting.values()].some((n) => n > 0)) return void time.at(time.now() + 100, close);
        process.drops += 1;
        const closed = mutant.closesNothing ? Promise.resolve() : process.ledger.close();
        void closed.then(() => {
          if (node.process !== process) return;
          beats.delete(process.ownerId);
          end(node);
        });
      };
      // The deadline of what has begun.
      time.at(time.now() + 400, close);
    },
    setCut(index: number, isCut: boolean): void {
      nodes[index]!.isCut = isCut;
    },
    freeze: (index: number) => nodes[index]!.machine.freeze(),
    thaw: (index: number) => nodes[index]!.machine.thaw(),
    stepWall: (index: number, ms: number) => nodes[index]!.machine.stepWall(ms),
    /** Everything was asked for until it was refused. */
    close: (id: string, limit: number) => counts.close(all, id, limit),
    hasForgottenHolds: (id: string) => counts.hasForgottenHolds(all, id),
    end: () => db.close(),
  };
}

/** A ledger collects what it asks the store in a turn of the event loop, and so does a grant. */
async function turnsSettled(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve));
}
