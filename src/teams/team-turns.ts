import { bounds } from "../bounds.ts";
import { createSemaphore, type Semaphore } from "../limit/semaphore.ts";

/**
 * Runs work for a team id while no other work for that id runs, first come first served. Rejects
 * with UNAVAILABLE, and never starts the work, where its turn does not come in time.
 */
export type InTurn = <T>(teamId: string, work: () => Promise<T>) => Promise<T>;

/** The turns stand in memory. That is enough, because one process serves a store. */
export function createTeamTurns(): InTurn {
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

  return (teamId, work) => semaphoreOf(teamId).run(work);
}
