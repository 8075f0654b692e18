import { type Clock, systemClock } from "../base/clock.ts";

/**
 * How long all streams together may hold up one turn of the event loop: while the bytes of apps are
 * read, and while messages are passed on. The time that has passed is never less than the
 * processor's time, and Linux tells that of a running thread only in steps of milliseconds.
 */
const readMsMax = 4;
const turnMsMax = 6;

/** The least that a stream is given, which is more than it takes to pass on one message. */
const partMsMin = 0.1;

/** How many questions are answered without a look at the clock: most come for a message. */
const unclocked = 16;

/**
 * Shares the turns of the event loop between all streams. A stream asks for a turn before each part
 * of its work that its app or its caller can repeat without end. Each gets a part of every turn, in
 * the order in which they asked; what does not fit comes first in the next turn. So everything else
 * that the process does waits for at most a few milliseconds of streams.
 *
 * Each of few streams gets a part of every turn, or of every second one. To pass on one message
 * takes about 0.1 ms, so past about 60 streams that always have more, each waits longer: of 256,
 * for six turns. Smaller parts would serve 50 instead of 30 of these in a turn, and cost up to 40 %
 * more processor time.
 */
export class StreamTurns {
  readonly #clock: Clock;
  readonly #defer: (work: () => void) => void;
  /** Those that have asked, in order. Each has its own deferred call, so that none is lost. */
  #asked: (() => void)[] = [];
  #next = 0;
  /** The deferred calls that this turn has still to make, and those of the next turn. */
  #callsLeft = 0;
  #callsDeferred = 0;
  #turnEndMs = 0;
  #partMs = 0;
  #partEndMs = 0;
  #questions = 0;
  #readEndMs: number | undefined;
  #reads = 0;

  constructor(clock: Clock, defer: (work: () => void) => void) {
    this.#clock = clock;
    this.#defer = defer;
  }

  /** Calls this once in a turn of its own. It must not throw. */
  ask(work: () => void): void {
    this.#asked.push(work);
    this.#deferCall();
  }

  /** Resolves in a turn of the caller's own. */
  turn(): Promise<void> {
    return new Promise((resolve) => this.ask(resolve));
  }

  /** Whether the one whose turn it is may do a little more. Ask it before each message. */
  mayGoOn(): boolean {
    this.#questions += 1;
    return this.#questions % unclocked !== 0 || this.#clock.monotonicMs() < this.#partEndMs;
  }

  /**
   * Called with each piece of what an app sends, before anybody has asked for a turn for it.
   * Whether there is time to take more from its connection in this turn.
   */
  mayRead(): boolean {
    this.#reads += 1;
    if (this.#readEndMs === undefined) {
      this.#readEndMs = this.#clock.monotonicMs() + readMsMax;
      return true;
    }
    return this.#reads % unclocked !== 0 || this.#clock.monotonicMs() < this.#readEndMs;
  }

  #deferCall(): void {
    this.#callsDeferred += 1;
    this.#defer(this.#call);
  }

  /** One of the calls that were deferred. They come together, once in a turn of the event loop. */
  readonly #call = (): void => {
    const nowMs = this.#clock.monotonicMs();
    if (this.#callsLeft === 0) this.#begin(nowMs);
    this.#callsLeft -= 1;
    if (nowMs >= this.#turnEndMs) {
      this.#deferCall();
      return;
    }
    const work = this.#asked[this.#next];
    this.#next += 1;
    if (this.#next === this.#asked.length) {
      this.#asked = [];
      this.#next = 0;
    }
    this.#partEndMs = Math.min(nowMs + this.#partMs, this.#turnEndMs);
    work?.();
  };

  #begin(nowMs: number): void {
    // What was served is let go of.
    this.#asked = this.#asked.slice(this.#next);
    this.#next = 0;
    this.#callsLeft = this.#callsDeferred;
    this.#callsDeferred = 0;
    this.#turnEndMs = nowMs + turnMsMax;
    this.#partMs = Math.max(partMsMin, turnMsMax / this.#callsLeft);
    this.#readEndMs = undefined;
  }
}

/** A process has one event loop, so all of its streams share these. */
export const streamTurns = new StreamTurns(systemClock, setImmediate);
