import { bounds } from "../bounds.ts";
import type { InstanceGuard } from "../fleet/instance-guard.ts";
import { createSemaphore, type Semaphore } from "../limit/semaphore.ts";
import { unavailable } from "../refusal/refusal.ts";

/**
 * Runs work for a team id while no other work for that id runs, first come first served. Rejects
 * with UNAVAILABLE, and never starts the work, where its turn does not come in time.
 */
export type InTurn = <T>(teamId: string, work: (turn: TeamTurn) => Promise<T>) => Promise<T>;

export interface TeamTurn {
  /**
   * Throws UNAVAILABLE where the turn may have passed to another instance, as this one stood still
   * for too long. Call it right before each step that must not meet another's work.
   */
  readonly requireHeld: () => void;
}

/** Holds a team id for this instance alone. Throws UNAVAILABLE where another keeps it. */
export type HoldTeam = (teamId: string) => Promise<InstanceGuard>;

/**
 * The turns stand in memory, which is enough where one process serves a store. In a fleet, each
 * turn also holds the id in the store.
 */
export function createTeamTurns(holdTeam?: HoldTeam): InTurn {
  const waiters = { size: 0, sizeMax: bounds.teamTurnWaitersMax };
  /** One for each id that has work running or waiting. */
  const semaphores = new Map<string, Semaphore>();

  function semaphoreOf(teamId: string): Semaphore {
    const open = semaphores.get(teamId);
    if (open) return open;
    const semaphore = createSemaphore({
      slots: () => 1,
      waitMsMax: bounds.teamTurnWaitMsMax,
      waiters,
      onIdle: () => semaphores.delete(teamId),
    });
    semaphores.set(teamId, semaphore);
    return semaphore;
  }

  return (teamId, work) =>
    semaphoreOf(teamId).run(() => (holdTeam ? whileHeld(holdTeam, { teamId, work }) : work(alone)));
}

const alone: TeamTurn = { requireHeld: () => {} };

async function whileHeld<T>(
  holdTeam: HoldTeam,
  { teamId, work }: { readonly teamId: string; readonly work: (turn: TeamTurn) => Promise<T> },
): Promise<T> {
  const guard = await holdTeam(teamId);
  const requireHeld = () => {
    if (guard.holds()) return;
    throw unavailable({ cause: new Error(`the turn of the team ${teamId} has passed to another instance`) });
  };
  try {
    return await work({ requireHeld });
  } finally {
    await guard.release();
  }
}
