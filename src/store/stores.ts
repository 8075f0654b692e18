import type { AppStore } from "../apps/app-store.ts";
import type { AuditStore } from "../audit/audit-store.ts";
import type { InstanceGuard } from "../fleet/alone.ts";
import type { ControlStore, LeaseRecord } from "../fleet/control-store.ts";
import type { KeyStore } from "../keys/key-store.ts";
import type { QuotaStore } from "../quota/quota-store.ts";
import type { RunStore } from "../run/kept/run-store.ts";
import type { ServiceTokenStore } from "../service-tokens/service-token-store.ts";
import type { SessionStore, UserStore } from "../sign-in/sign-in-store.ts";
import type { MemberStore, PreviewStore, TeamStore } from "../teams/team-store.ts";
import type { UsageStore } from "../usage/usage-store.ts";

/** One store's implementation of every port. */
export interface Stores {
  readonly keys: KeyStore;
  readonly teams: TeamStore;
  readonly members: MemberStore;
  readonly preview: PreviewStore;
  readonly apps: AppStore;
  readonly sessions: SessionStore;
  readonly users: UserStore;
  readonly serviceTokens: ServiceTokenStore;
  readonly runs: RunStore;
  readonly usage: UsageStore;
  readonly quotas: QuotaStore;
  readonly audit: AuditStore;
  /** Says whether this process may admit requests. `close` releases it. */
  readonly guard: InstanceGuard;
  /** What instances need to serve the store together. Absent where this one serves it alone. */
  readonly fleet?: FleetStore;
  /**
   * Resolves where the store answers now what a run asks it; throws what a run would meet where it
   * does not, UNAVAILABLE where it is out of reach. Cheap, and ends within `storeTimeoutMs`.
   */
  check(): Promise<void>;
  /** True until the first team or app is written; a deleted app counts as written. */
  isEmpty(): Promise<boolean>;
  /**
   * Leaves the store to the next process. Later calls throw UNAVAILABLE. Closing again does
   * nothing.
   */
  close(): Promise<void>;
}

export interface FleetStore {
  /** The id of the fleet, for ever: random, and of letters and digits. */
  readonly id: string;
  readonly control: ControlStore;
  /**
   * Locks a team id for this instance until the lock is released. Where another instance has it,
   * waits until that has released it or lapsed; throws UNAVAILABLE after `teamMutexWaitMsMax`.
   */
  lockTeam(teamId: string): Promise<InstanceGuard>;
}

/** An instance of a fleet, as it was seen. */
export interface SeenInstance extends LeaseRecord {
  /** For how long no heartbeat of it was seen, up to its end. */
  readonly silentMs: number;
}

/**
 * What an inspection of a store found. Nothing in the store was changed by it, though SQLite may
 * have put an empty log and its shared memory beside the file.
 */
export interface StoreInspection {
  /** What it is, for the operator, like "schema 5". */
  readonly words: string;
  /** Why it can be used, and should not be as it is; absent if nothing speaks against it. */
  readonly warning?: string;
  /** Another process serves the store alone now, so a start would be refused. */
  readonly isServed: boolean;
  /**
   * A process that serves the store alone has not left it: it serves now, or is suspended and may
   * go on, or was killed. The next start finds out which.
   */
  readonly isLocked: boolean;
  /** The instances of a fleet that serve the store now, by order of registration. */
  readonly instances: readonly LeaseRecord[];
  /** All of a fleet that have not left, also those that are silent and may go on. */
  readonly registered: readonly SeenInstance[];
  /** As `KeyStore.secretVersions`; read after all of the above. */
  readonly secretVersions: readonly string[];
  /** The id of its fleet; absent where it never had one. */
  readonly fleetId?: string;
}

/**
 * Returns a check that asks a store what a run asks: a key, a team and an app, each by an id that
 * does not exist. From call to call the id goes through the places where keys are, so the store
 * reads all parts of itself in turn, and not one page that it has in memory.
 */
export function createLookUpEach({ keys, teams, apps }: Pick<Stores, "keys" | "teams" | "apps">) {
  let place = 0;
  return async (): Promise<void> => {
    const id = digits.charAt(place >> 5) + digits.charAt(place & 31);
    await Promise.all([keys.find(id), teams.find(id), apps.find(id)]);
    place = (place + step) % 1024;
  };
}

/** Those of the ids of keys, in their order. */
const digits = "0123456789abcdefghjkmnpqrstvwxyz";
/** Has no factor in common with 1024: every place has its turn, and neighbours are far apart. */
const step = 393;
