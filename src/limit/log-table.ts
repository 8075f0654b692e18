import { SlidingLog } from "./sliding-log.ts";

/** A log, its id, and its neighbours in the order of last acceptance. */
export interface TableEntry {
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

  /** The entries, the one that accepted something last first. */
  *newestFirst(): IterableIterator<TableEntry> {
    for (let entry = this.#last; entry; entry = entry.older) yield entry;
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
