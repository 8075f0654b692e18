import { createHash } from "node:crypto";
import {
  closeSync,
  existsSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  rmSync,
  statfsSync,
  statSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { bounds } from "../../bounds.ts";
import { makePrivateFile } from "./private-file.ts";

/**
 * A file of blocks that the store gives up, a piece at a time, so that a change that takes a right
 * away can be written on a full disk. While a part is given up, no other change is written: it
 * would take the room.
 */
export interface DiskReserve {
  /**
   * Whether a part was given up. First takes it back where there is room again. The length of the
   * file keeps the answer for the next process.
   */
  isGivenUp(): boolean;
  /** Frees a piece. Returns false where nothing is left of it. */
  giveUp(): boolean;
}

/** `absent`: there is no reserve, as the disk never had the room. Changes are written as ever. */
export type ReserveState = "whole" | "given_up" | "absent";

const reserves = new WeakMap<DatabaseSync, DiskReserve>();

/** From now on the changes of this database use the reserve. */
export function setReserve(db: DatabaseSync, reserve: DiskReserve): void {
  reserves.set(db, reserve);
}

export function reserveOf(db: DatabaseSync): DiskReserve | undefined {
  return reserves.get(db);
}

const { storeReserveBytes, storeReservePieceBytes } = bounds;

/**
 * Opens the reserve of a locked folder, and makes it where there is room. Never throws. `onState`
 * is called with each new state; that it is whole at the start is nothing new.
 */
export function openReserve(dataDir: string, onState: (state: ReserveState) => void): DiskReserve {
  const path = join(dataDir, "keyrun.reserve");
  let state: ReserveState = reserveState(dataDir);
  let triedBytes = 0;

  /** Some file systems say that there is room, and refuse it: such room is not tried twice. */
  function isFilled(): boolean {
    try {
      const freeBytes = freeBytesIn(dataDir);
      if (freeBytes < storeReserveBytes - sizeOf(path) || freeBytes <= triedBytes) return false;
      triedBytes = freeBytes;
      fill(path);
      triedBytes = 0;
      return true;
    } catch {
      // Half a first reserve would be taken for one that was given up.
      if (state === "absent") rmSync(path, { force: true });
      return false;
    }
  }

  if (state !== "whole") {
    if (isFilled()) state = "whole";
    else onState(state);
  }
  return {
    isGivenUp() {
      if (state !== "whole" && isFilled()) {
        state = "whole";
        onState(state);
      }
      return state === "given_up";
    },
    giveUp() {
      try {
        const size = sizeOf(path);
        if (size === 0) return false;
        resize(path, (file) => ftruncateSync(file, Math.max(size - storeReservePieceBytes, 0)));
      } catch {
        return false;
      }
      if (state !== "given_up") {
        state = "given_up";
        onState(state);
      }
      return true;
    },
  };
}

/** The state of the reserve in this folder, by its length alone. */
export function reserveState(dataDir: string): ReserveState {
  const path = join(dataDir, "keyrun.reserve");
  if (!existsSync(path)) return "absent";
  return sizeOf(path) < storeReserveBytes ? "given_up" : "whole";
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

function freeBytesIn(folder: string): number {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
}

function fill(path: string): void {
  // Bytes that no file system can compress or leave out.
  const outputLength = storeReservePieceBytes;
  const piece = createHash("shake256", { outputLength }).update(path).digest();
  resize(path, (file) => {
    const before = fstatSync(file).size;
    try {
      for (let size = before; size < storeReserveBytes; ) {
        size += writeSync(file, piece, 0, Math.min(piece.length, storeReserveBytes - size), size);
      }
    } catch (thrown) {
      ftruncateSync(file, before);
      throw thrown;
    }
  });
}

function resize(path: string, change: (file: number) => void): void {
  const file = openSync(makePrivateFile(path), "r+");
  try {
    change(file);
    // Only then the system has found, or freed, the blocks.
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
