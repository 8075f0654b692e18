import { createDecide } from "#src/admission/decide.ts";
import type { KeyVerdict } from "#src/auth/key-evidence.ts";
import type { Clock } from "#src/base/clock.ts";
import { createFlooredCache, type FlooredCache } from "#src/cache/floored-cache.ts";
import type { ControlStore } from "#src/fleet/control-store.ts";
import { type Fleet, joinFleet } from "#src/fleet/fleet.ts";
import type { FleetTimes } from "#src/fleet/lease.ts";
import { createSecurityState, raiseFloors } from "#src/fleet/security-state.ts";
import type { LimitDecision } from "#src/limit/limit-decision.ts";
import type { PlanName } from "#src/settings/config.ts";
import type { TeamRecord } from "#src/teams/team-store.ts";
import type { MemoryControl } from "../../harness/memory-control-store.ts";
import type { Machine } from "../../harness/simulated-machine.ts";
import type { CallStore } from "../../harness/store-link.ts";
import type { Mutant } from "./mutants.ts";
import type { SimulatedRecord, SimulatedRecords } from "./records.ts";

/** The team of all keys of the simulation. */
const teamId = "demo";

/** One process: the production modules of an instance, over a simulated machine and store. */
export interface Instance {
  /** Decides about a request as Keyrun does; undefined: refused. */
  admit(keyId: string): Promise<Admitted | undefined>;
  /** Resolves where an operator would get OK. */
  revoke(keyId: string): Promise<void>;
  /** Replaces the key by another one, as `RotateKey` does: it is revoked, or gets an expiry. */
  rotate(keyId: string, options: { readonly hasOverlap: boolean }): Promise<void>;
  /** Gives the team another plan; returns the version that it then has. */
  changePlan(options: { readonly grants: boolean }): Promise<number>;
  readonly fleet: Fleet;
}

/** By what a request was admitted. */
export interface Admitted {
  readonly planVersion: number;
  /** Whether the key was known to be replaced. */
  readonly isReplaced: boolean;
}

export interface InstanceParts {
  readonly index: number;
  readonly machine: Machine;
  readonly callStore: CallStore;
  readonly control: MemoryControl;
  readonly keys: SimulatedRecords;
  readonly teams: SimulatedRecords;
  readonly times: FleetTimes;
  readonly ttlMs: number;
  readonly newId: () => string;
  readonly nudge: (addresses: readonly string[]) => void;
  /** Called when the answer of a read of a key arrives. */
  readonly onRead: (key: SimulatedRecord) => void;
  readonly onSilent: () => void;
  readonly mutant: Mutant;
}

/** Rejects where the instance can't join; its process then ends, and is started again. */
export async function startInstance(parts: InstanceParts): Promise<Instance> {
  const { machine, callStore, index, mutant, times } = parts;
  const { clock } = machine;
  const context = { clock, times, index, process: machine.process(), server: parts.control };
  const keys = cacheOf(parts, async (id) => {
    const found = await callStore("find key", () => readKey(parts, id));
    parts.onRead(found);
    return found;
  });
  const teams = cacheOf(parts, (id) => callStore("find team", () => parts.teams.find(id)));
  const floors = { key: keys, team: teams };
  const control = controlOf(parts);
  const joined = await joinFleet({
    control: mutant.control?.(control, context) ?? control,
    clock: mutant.leaseClock?.(clock) ?? clock,
    timers: machine.timers(),
    newId: mutant.newId?.(parts.newId, context) ?? parts.newId,
    facts: factsOf(index),
    times: mutant.times?.(times) ?? times,
    apply: (changes) => raiseFloors(floors, changes),
    clear() {
      keys.clear();
      teams.clear();
    },
    nudge: parts.nudge,
    events: { onSilent: parts.onSilent },
  });
  const fleet = mutant.fleet?.(joined, context) ?? joined;
  const changeSecurityState = createSecurityState<{ key: SimulatedRecord; team: SimulatedRecord }>({
    floors,
    fleet,
  });
  const setKey = (id: string) => callStore("write key", () => parts.keys.set(id, 2));
  const decide = decideOf({ clock, keys, teams, mayAdmit: fleet.mayAdmit });
  return {
    fleet,
    async admit(keyId) {
      const decision = await decide(keyId);
      if (decision.kind !== "admitted") return undefined;
      return { planVersion: Number(decision.plan), isReplaced: decision.end?.isReplaced ?? false };
    },
    async revoke(keyId) {
      if (mutant.revoke) {
        const isRevoked = () => callStore("find key", () => parts.keys.find(keyId).version === 2);
        return await mutant.revoke({ keyId, changeSecurityState, setKey, isRevoked });
      }
      await changeSecurityState(
        "key",
        () => setKey(keyId),
        (key) => ({ ...key, teamId }),
      );
    },
    async rotate(keyId, { hasOverlap }) {
      const newKey = () => callStore("write key", () => parts.keys.set(parts.newId(), 2));
      const setOld = () =>
        callStore("write key", () => parts.keys.set(keyId, 2, hasOverlap ? { isReplaced: true } : {}));
      if (mutant.rotate) return await mutant.rotate({ changeSecurityState, newKey, setOld });
      await changeSecurityState(
        "key",
        async () => [await newKey(), await setOld()] as const,
        ([successor, old]) => [
          { ...successor, teamId, grants: true },
          { ...old, teamId },
        ],
      );
    },
    async changePlan({ grants }) {
      const changed = await changeSecurityState(
        "team",
        () => callStore("write team", () => parts.teams.set(teamId, parts.teams.find(teamId).version + 1)),
        ({ version }) => ({ id: teamId, version, grants }),
      );
      return changed.version;
    },
  };
}

export type ChangeSimulated = ReturnType<
  typeof createSecurityState<{ key: SimulatedRecord; team: SimulatedRecord }>
>;

function readKey({ keys, mutant, times }: InstanceParts, id: string): SimulatedRecord {
  return mutant.staleReads ? keys.findStale(id, times.leaseMs / 2) : keys.find(id);
}

function cacheOf(
  { machine, ttlMs, mutant }: InstanceParts,
  load: (id: string) => Promise<SimulatedRecord>,
): FlooredCache<SimulatedRecord> {
  const { clock } = machine;
  const options = {
    ...{ clock, ttlMs, load },
    entriesMax: 10,
    absentMax: 10,
    absentTtlMs: 1,
    floorRetentionMs: 60_000,
    versionOf: ({ version }: SimulatedRecord) => version,
  };
  return mutant.cache?.(options) ?? createFlooredCache(options);
}

/** The control record behind the instance's way to the store. */
function controlOf({ callStore, control, mutant }: InstanceParts): ControlStore {
  return {
    read: () => callStore("read", () => control.read()),
    register: (id, facts) =>
      callStore("register", () => {
        if (mutant.registersOver) control.remove(id);
        return control.register(id, facts);
      }),
    beat: (id, step) => callStore("beat", () => control.beat(id, step)),
    push: (changes) => callStore("push", () => control.push(changes)),
    bringPlanLimits: (brought) => callStore("bring plan limits", () => control.bringPlanLimits(brought)),
    remove: (id) => callStore("remove", () => control.remove(id)),
    vacate: (id, share) => callStore("remove", () => control.vacate(id, share)),
    takeOver: (id, share) => callStore("take over", () => control.takeOver(id, share)),
    dropVacant: (slot) => callStore("remove", () => control.dropVacant(slot)),
    removeUnchanged: (id, seen) => callStore("remove", () => control.removeUnchanged(id, seen)),
  };
}

function factsOf(index: number) {
  return {
    ...{
      version: "0.0.0-test",
      alone: false,
      protocol: 1,
      schema: 7,
      secretVersions: ["1"],
      serviceTokenMark: "",
      keyPrefix: "kr",
    },
    address: String(index),
  };
}

const replacedEnd = { timeMs: 0, time: "", isReplaced: true };

/**
 * The production decision about a key. A plan's name is the team's version here, so that a decision
 * shows on which knowledge it rests.
 */
function decideOf(parts: {
  readonly clock: Clock;
  readonly keys: FlooredCache<SimulatedRecord>;
  readonly teams: FlooredCache<SimulatedRecord>;
  readonly mayAdmit: () => boolean;
}) {
  const { clock, keys, teams, mayAdmit } = parts;
  const verdictOf = ({ id: keyId, version, isReplaced = false }: SimulatedRecord): KeyVerdict =>
    version === 1 || isReplaced
      ? {
          kind: "valid",
          keyId,
          firstKeyId: keyId,
          teamId,
          restrictions: null,
          ...(isReplaced && { end: replacedEnd }),
        }
      : { kind: "revoked", keyId, teamId, revokeTimeMs: 0 };
  const teamOf = ({ id, version }: SimulatedRecord): TeamRecord => ({
    ...{ id, displayName: id, plan: String(version) as PlanName, version, state: "active" },
    createTimeMs: 0,
  });
  const rate: LimitDecision = { accepted: true, limit: 1, remaining: 0, resetUnixMs: 0, retryAfterMs: 0 };
  const decide = createDecide({
    clock,
    verifier: {
      peek(keyId) {
        const known = keys.peek(keyId);
        return known ? verdictOf(known) : undefined;
      },
      load: async (keyId) => verdictOf((await keys.load(keyId))!),
    },
    teams: {
      peek(id) {
        const known = teams.peek(id);
        return known && teamOf(known);
      },
      load: async (id) => teamOf((await teams.load(id))!),
    },
    limiter: { spend: () => rate, peek: () => rate },
    quotaOf: () => undefined,
    quotas: { reserve: () => ({ kind: "reserved", release() {} }), known: () => undefined },
    limitOf: () => 1,
    keyUsed() {},
    usage: { accepted() {}, limited() {} },
    mayAdmit,
  });
  return (keyId: string) => decide(keyId, { cost: 1, address: "", guard: (_, lookUp) => lookUp() });
}
