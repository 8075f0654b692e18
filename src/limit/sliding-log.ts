/**
 * The times of one caller's accepted requests, in a ring of 8 bytes an entry. Exact: at most
 * `limit` are accepted in any span of `windowMs`, and none is refused below that. An entry of time
 * t counts until just before t + `windowMs`.
 *
 * Time is an argument in monotonic milliseconds; a time before the newest seen is taken as the
 * newest. It is rounded down to a tick of 1/1024 ms, so that every sum and difference of times is
 * exact. So a caller that waits precisely as long as its refusal says is never too early by a
 * rounding error. The arguments are positional, not an object, because nothing is allocated here
 * for a request.
 */
export class SlidingLog {
  readonly #windowMs: number;
  /** A ring: `#count` times, ascending, from index `#oldest` on. */
  #times = new Float64Array(0);
  #oldest = 0;
  #count = 0;
  #nowMs = Number.NEGATIVE_INFINITY;

  /** `windowMs` is a whole number. */
  constructor(windowMs: number) {
    this.#windowMs = windowMs;
  }

  /**
   * Takes `cost` (whole, 0 to `limit`) at once or not at all. Returns 0 where it was taken, else
   * after how many milliseconds it would be taken if nobody else spent: more than 0, at most
   * `windowMs`. A refused cost leaves no trace. The limit may differ from call to call: the log is
   * kept, and counts against the new limit. Throws RangeError where `cost` is out of range.
   */
  spend(nowMs: number, limit: number, cost: number): number {
    const waitMs = this.waitMs(nowMs, limit, cost);
    if (waitMs === 0 && cost > 0) this.#append(limit, cost);
    return waitMs;
  }

  /** What `spend` would return now, without taking anything. */
  waitMs(nowMs: number, limit: number, cost: number): number {
    if (!Number.isInteger(cost) || cost < 0 || cost > limit) {
      throw new RangeError("A cost is a whole number from 0 to the limit");
    }
    this.#advance(nowMs);
    const excess = this.#count + cost - limit;
    return cost > 0 && excess > 0 ? this.#leaveMs(excess - 1) - this.#nowMs : 0;
  }

  /** Whether nothing counts at this time. */
  isEmptyAt(nowMs: number): boolean {
    this.#advance(nowMs);
    return this.#count === 0;
  }

  /** How many requests are counted, as of the newest time seen. */
  get count(): number {
    return this.#count;
  }

  /**
   * In how many milliseconds the oldest counted request leaves the window, as of the newest time
   * seen; 0 where none is counted.
   */
  get resetAfterMs(): number {
    return this.#count === 0 ? 0 : this.#leaveMs(0) - this.#nowMs;
  }

  /**
   * The size of the ring: after an accepted request at most 8 bytes for each request of the limit.
   */
  get byteLength(): number {
    return this.#times.byteLength;
  }

  #advance(nowMs: number): void {
    const tickMs = floorToTick(nowMs);
    if (tickMs > this.#nowMs) this.#nowMs = tickMs;
    if (this.#count > 0 && this.#leaveMs(this.#count - 1) <= this.#nowMs) this.#count = 0;
    while (this.#count > 0 && this.#leaveMs(0) <= this.#nowMs) {
      this.#oldest = this.#index(1);
      this.#count--;
    }
  }

  #append(limit: number, cost: number): void {
    const needed = this.#count + cost;
    if (needed > this.#times.length || this.#times.length > limit) this.#resize(limit, needed);
    for (; this.#count < needed; this.#count++) this.#times[this.#index(this.#count)] = this.#nowMs;
  }

  /**
   * Doubles the ring, so that a quiet caller of a large limit stays small. Shrinks it to a limit
   * that was lowered.
   */
  #resize(limit: number, needed: number): void {
    const times = new Float64Array(Math.min(limit, Math.max(needed, 2 * this.#times.length, entriesMin)));
    for (let n = 0; n < this.#count; n++) times[n] = this.#times[this.#index(n)] ?? 0;
    this.#times = times;
    this.#oldest = 0;
  }

  /** When the nth counted request (0: the oldest) leaves the window. */
  #leaveMs(n: number): number {
    return (this.#times[this.#index(n)] ?? 0) + this.#windowMs;
  }

  #index(n: number): number {
    const index = this.#oldest + n;
    return index < this.#times.length ? index : index - this.#times.length;
  }
}

function floorToTick(ms: number): number {
  return Math.floor(ms * ticksPerMs) / ticksPerMs;
}

/** The first size of a ring, for limits that are not smaller. */
const entriesMin = 8;

/** A power of two, so that dividing by it is exact. Times stay exact for 278 years of uptime. */
const ticksPerMs = 1024;

/** A log, its id, and its neighbours in the order of last acceptance. */
interface TableEntry {
  readonly id: string;
  readonly log: SlidingLog;
  /**
   * The entry before this one; undefined for the first entry, and for one that is not in the table.
   */
  older: TableEntry | undefined;
  newer: TableEntry | undefined;
}

/**
 * Logs by id, in the order in which each last accepted something. If the first log is not empty,
 * none is, so finding a log to drop costs the same however many there are. Times must not go down
 * from call to call.
 */
export class LogTable {
  readonly #windowMs: number;
  readonly #entries = new Map<string, TableEntry>();
  #first: TableEntry | undefined;
  #last: TableEntry | undefined;

  constructor(windowMs: number) {
    this.#windowMs = windowMs;
  }

  get size(): number {
    return this.#entries.size;
  }

  find(id: string): TableEntry | undefined {
    return this.#entries.get(id);
  }

  /** Adds an empty log as the last. The id must not be there. */
  add(id: string): TableEntry {
    const entry: TableEntry = {
      id,
      log: new SlidingLog(this.#windowMs),
      older: undefined,
      newer: undefined,
    };
    this.#entries.set(id, entry);
    this.#append(entry);
    return entry;
  }

  /** Makes the entry the last: its log has just accepted something. */
  touch(entry: TableEntry): void {
    if (entry === this.#last) return;
    this.#unlink(entry);
    this.#append(entry);
  }

  /** Drops up to `dropsMax` empty logs. */
  dropEmpty(nowMs: number, dropsMax: number): void {
    for (let drops = 0; drops < dropsMax && this.#first?.log.isEmptyAt(nowMs); drops++) this.dropFirst();
  }

  /** Drops the log that has accepted nothing for longest, empty or not. */
  dropFirst(): void {
    const entry = this.#first;
    if (entry === undefined) return;
    this.#unlink(entry);
    this.#entries.delete(entry.id);
  }

  #append(entry: TableEntry): void {
    entry.older = this.#last;
    if (this.#last) this.#last.newer = entry;
    else this.#first = entry;
    this.#last = entry;
  }

  #unlink(entry: TableEntry): void {
    if (entry.older) entry.older.newer = entry.newer;
    else this.#first = entry.newer;
    if (entry.newer) entry.newer.older = entry.older;
    else this.#last = entry.older;
    entry.older = undefined;
    entry.newer = undefined;
  }
}
