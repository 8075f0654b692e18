import { bounds } from "../bounds.ts";
import type { InstanceGuard } from "../fleet/alone.ts";
import {
  type ChangeSecurityState,
  changeOf,
  type FlooredChange,
  grantOf,
  type StoredChange,
} from "../fleet/security-state.ts";
import { createSemaphore, type Semaphore } from "../limit/semaphore.ts";
import { fail, type Refusal, unavailable } from "../refusal/refusal.ts";
import { noSuchTeam, teamNotFound } from "./find-team.ts";
import type { MemberStore, TeamRecord, TeamStore } from "./team-store.ts";

/**
 * Deletes teams, and clears ids for new ones. Deletions of one id at a time share one deletion.
 * Otherwise a mutex for each id lets one of them run at a time, so that no step of it meets a team
 * that was inserted after it began.
 */
export function createDeleteTeam(parts: DeleteTeamParts) {
  const mutex = createTeamMutex(parts.lockTeam);
  const running = new Map<string, Promise<void>>();
  return {
    /**
     * Deletes the team: marks it as ending, checks what it has, removes its members and its
     * revoked keys, and then the team. Throws TEAM_HAS_KEYS or TEAM_HAS_APPS, and takes the mark
     * away, where the team is still used; TEAM_NOT_FOUND where there is none. An error of the store
     * may leave the team marked: nothing can be added to it then, and a repeated call deletes or
     * releases it.
     */
    delete(teamId: string): Promise<void> {
      const joined = running.get(teamId);
      if (joined) return joined;
      const started = mutex(teamId, (lock) => deleteTeam(parts, teamId, lock)).finally(() =>
        running.delete(teamId),
      );
      running.set(teamId, started);
      return started;
    },
    /**
     * Removes what an interrupted deletion, or a write on its way then, left behind under the id.
     * Then does the insert, which may give the id to a new team, and returns what it returns. Once
     * Keyrun serves, every insert of a team must come through here.
     */
    clearIdFor: <T>(teamId: string, insert: () => Promise<T>): Promise<T> =>
      mutex(teamId, async (lock) => {
        if ((await parts.store.deletedVersion(teamId)) !== undefined)
          await removeDependents(parts, teamId, lock);
        lock.requireLock();
        return await insert();
      }),
  };
}

export interface DeleteTeamParts {
  readonly store: TeamStore;
  readonly members: MemberStore;
  readonly dependents: TeamDependents;
  /** Holds a team id against the other instances of a fleet. Absent where there are none. */
  readonly lockTeam?: LockTeam | undefined;
  readonly changeSecurityState: ChangeSecurityState<"team", FlooredChange<TeamRecord>> &
    ChangeSecurityState<"member", StoredChange>;
}

/** What a team has in other folders. */
export interface TeamDependents {
  /** How many of its keys are not revoked. */
  countActiveKeys(teamId: string): Promise<number>;
  /** Ids of apps that only the teams they name may run, if they name this one; at most `limit`. */
  appsLimitedTo(teamId: string, limit: number): Promise<string[]>;
  /**
   * Deletes all of its keys. No cached copy of them counts any more. Calls `before` right before
   * each write, and ends with what it throws.
   */
  deleteKeys(teamId: string, before: () => void): Promise<void>;
  /**
   * Ends its runs in the background, and deletes what is kept of runs. Calls `before` in the same
   * way.
   */
  deleteRunRecords(teamId: string, before: () => void): Promise<void>;
  /** Deletes the counts of how its keys were used. Calls `before` in the same way. */
  deleteUsage(teamId: string, before: () => void): Promise<void>;
  /** Deletes what is counted of its quotas. Calls `before` in the same way. */
  deleteQuotas(teamId: string, before: () => void): Promise<void>;
  /** Takes the team from the service tokens that name it. Calls `before` in the same way. */
  leaveServiceTokens(teamId: string, before: () => void): Promise<void>;
  /** Called when the team is deleted: ends its streams with this refusal. */
  teamDeleted(teamId: string, reason: Refusal): void;
}

async function deleteTeam(parts: DeleteTeamParts, teamId: string, lock: TeamLock): Promise<void> {
  const { store, dependents, changeSecurityState } = parts;
  for (let tries = 0; tries < bounds.teamDeleteTriesMax; tries++) {
    lock.requireLock();
    const marked = await setState(parts, teamId, "ending");
    if (!marked) return await finishEarlier(parts, teamId, lock);
    await refuseIfUsed(parts, teamId, lock);
    await removeDependents(parts, teamId, lock);
    const deletedVersion = await changeSecurityState(
      "team",
      () => store.delete(teamId, marked.version),
      (version) => (version === undefined ? undefined : { id: teamId, version }),
    );
    if (deletedVersion !== undefined) return dependents.teamDeleted(teamId, teamNotFound(teamId));
    // Another change of the team came in between, so its state is read again.
  }
  throw unavailable();
}

function setState(
  { store, changeSecurityState }: DeleteTeamParts,
  teamId: string,
  state: TeamRecord["state"],
): Promise<TeamRecord | undefined> {
  // To take the mark away gives a right back.
  const change = state === "active" ? grantOf : changeOf;
  return changeSecurityState("team", () => store.update(teamId, { state }), change);
}

/** Throws if the team is still used, or if that can't be found out; the mark is then gone. */
async function refuseIfUsed(parts: DeleteTeamParts, teamId: string, lock: TeamLock): Promise<void> {
  const refusal = await findUse(parts, teamId).catch(async (thrown: unknown) => {
    // Nothing was removed yet. If the store can't take the mark away either, a repeated call does.
    lock.requireLock();
    await setState(parts, teamId, "active").catch(() => {});
    throw thrown;
  });
  if (!refusal) return;
  // The mark may be another instance's by now.
  lock.requireLock();
  await setState(parts, teamId, "active");
  throw refusal;
}

async function findUse({ dependents }: DeleteTeamParts, teamId: string): Promise<Refusal | undefined> {
  const param = "team_id";
  const activeKeys = await dependents.countActiveKeys(teamId);
  if (activeKeys > 0) {
    const metadata = { team_id: teamId, active_key_count: String(activeKeys) };
    return fail("TEAM_HAS_KEYS", { param, metadata });
  }
  const apps = await dependents.appsLimitedTo(teamId, bounds.namedAppsMax + 1);
  if (apps.length === 0) return undefined;
  const more = apps.length > bounds.namedAppsMax ? " and more" : "";
  const appIds = `${apps.slice(0, bounds.namedAppsMax).join(", ")}${more}`;
  return fail("TEAM_HAS_APPS", { param, metadata: { team_id: teamId, app_ids: appIds } });
}

async function removeDependents(parts: DeleteTeamParts, teamId: string, lock: TeamLock): Promise<void> {
  const { members, dependents, changeSecurityState } = parts;
  for (let removed: number = bounds.deletedAtOnce; removed === bounds.deletedAtOnce; ) {
    removed = await changeSecurityState(
      "member",
      async () => {
        lock.requireLock();
        return members.removeAll(teamId, bounds.deletedAtOnce);
      },
      { id: `${teamId}/` },
    );
  }
  await dependents.leaveServiceTokens(teamId, lock.requireLock);
  await dependents.deleteKeys(teamId, lock.requireLock);
  await dependents.deleteRunRecords(teamId, lock.requireLock);
  await dependents.deleteUsage(teamId, lock.requireLock);
  await dependents.deleteQuotas(teamId, lock.requireLock);
}

/** The reply to an earlier deletion may have been lost, or its last steps. */
async function finishEarlier(parts: DeleteTeamParts, teamId: string, lock: TeamLock): Promise<never> {
  const { store, changeSecurityState } = parts;
  const deletedVersion = await changeSecurityState(
    "team",
    () => store.deletedVersion(teamId),
    (version) => (version === undefined ? undefined : { id: teamId, version }),
  );
  if (deletedVersion !== undefined) await removeDependents(parts, teamId, lock);
  throw noSuchTeam(teamId);
}

/**
 * Runs work for a team id while no other work for that id runs, first come first served. Rejects
 * with UNAVAILABLE, and never starts the work, where it does not get the mutex in time.
 */
type TeamMutex = <T>(teamId: string, work: (lock: TeamLock) => Promise<T>) => Promise<T>;

interface TeamLock {
  /**
   * Throws UNAVAILABLE if another instance may have the mutex now, because this one stood still for
   * too long. Call it right before each step that must not run beside another's work.
   */
  readonly requireLock: () => void;
}

/** Locks a team id for this instance alone. Throws UNAVAILABLE if another one keeps its lock. */
export type LockTeam = (teamId: string) => Promise<InstanceGuard>;

/**
 * The mutex is in memory, which is enough if one process serves the store. In a fleet, its owner
 * also locks the id in the store.
 */
function createTeamMutex(lockTeam?: LockTeam): TeamMutex {
  const waiters = { size: 0, sizeMax: bounds.teamMutexWaitersMax };
  /** One for each id that has work running or waiting. */
  const semaphores = new Map<string, Semaphore>();

  function semaphoreOf(teamId: string): Semaphore {
    const open = semaphores.get(teamId);
    if (open) return open;
    const semaphore = createSemaphore({
      slots: () => 1,
      waitMsMax: bounds.teamMutexWaitMsMax,
      waiters,
      onIdle: () => semaphores.delete(teamId),
    });
    semaphores.set(teamId, semaphore);
    return semaphore;
  }

  return (teamId, work) =>
    semaphoreOf(teamId).run(() => (lockTeam ? whileLocked(lockTeam, { teamId, work }) : work(alone)));
}

const alone: TeamLock = { requireLock: () => {} };

async function whileLocked<T>(
  lockTeam: LockTeam,
  { teamId, work }: { readonly teamId: string; readonly work: (lock: TeamLock) => Promise<T> },
): Promise<T> {
  const guard = await lockTeam(teamId);
  const requireLock = () => {
    if (guard.isValid()) return;
    throw unavailable({ cause: new Error(`the turn of the team ${teamId} has passed to another instance`) });
  };
  try {
    return await work({ requireLock });
  } finally {
    await guard.release();
  }
}
