import type { AppStore } from "../apps/app-store.ts";
import type { AuditStore } from "../audit/audit-store.ts";
import type { ControlStore } from "../fleet/control-store.ts";
import type { InstanceGuard } from "../fleet/instance-guard.ts";
import type { KeyStore } from "../keys/key-store.ts";
import type { WindowStore } from "../limit/window-store.ts";
import type { RunRecordStore } from "../run/idempotency/run-record-store.ts";
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
  readonly window: WindowStore;
  readonly runRecords: RunRecordStore;
  readonly usage: UsageStore;
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
  /** The schema that this Keyrun knows, and to which it has brought the database. */
  readonly schema: number;
  /**
   * Holds a team id for this instance, until it is released. Where another instance holds it, waits
   * until that has released it or lapsed; throws UNAVAILABLE after `teamMutexWaitMsMax`.
   */
  holdTeam(teamId: string): Promise<InstanceGuard>;
}
