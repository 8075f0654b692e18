import { unavailable } from "../error.ts";

/** Lets work in while a slot is free, and the rest wait in line, first come first served. */
export interface Gate {
  /**
   * Runs the work and answers as it does. Refuses with UNAVAILABLE, and never starts the work, where no slot
   * came free in time or too many wait already.
   */
  run<T>(work: () => Promise<T>): Promise<T>;
}

/** How many wait, counted over all gates that share the room. */
export interface WaitingRoom {
  size: number;
  readonly sizeMax: number;
}

/**
 * A gate with as many slots as `slots` says each time it is asked: it may change, and must be at least 1.
 * One waits at most `waitMsMax`. `onIdle` is called whenever the last one has gone, before anybody else can come.
 */
export function createGate(options: {
  slots: () => number;
  waitMsMax: number;
  room: WaitingRoom;
  onIdle?: () => void;
}): Gate {
  const { slots, waitMsMax, room, onIdle } = options;
  let running = 0;
  const line = new Set<Waiter>();

  function leaveLine(waiter: Waiter): void {
    clearTimeout(waiter.timer);
    line.delete(waiter);
    room.size--;
  }

  function waitForTurn(): Promise<void> {
    if (room.size >= room.sizeMax) throw unavailable();
    return new Promise((enter, refuse) => {
      const timer = setTimeout(() => {
        leaveLine(waiter);
        refuse(unavailable());
      }, waitMsMax);
      const waiter = { enter, timer };
      line.add(waiter);
      room.size++;
    });
  }

  /** The slot is taken here, before the waiter goes on: nobody can come between. */
  function callNext(): void {
    for (const waiter of line) {
      if (running >= slots()) return;
      running++;
      leaveLine(waiter);
      waiter.enter();
    }
  }

  return {
    async run(work) {
      if (line.size === 0 && running < slots()) running++;
      else await waitForTurn();
      try {
        return await work();
      } finally {
        running--;
        callNext();
        if (running === 0) onIdle?.();
      }
    },
  };
}

interface Waiter {
  readonly enter: () => void;
  readonly timer: NodeJS.Timeout;
}
