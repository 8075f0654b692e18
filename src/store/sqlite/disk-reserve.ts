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
import { bounds } from "../../bounds.ts";
import { makePrivateFile } from "./locked-database.ts";
import type { DiskReserve } from "./statement.ts";

/** `absent`: there is no reserve, as the disk never had the room. Changes are written as ever. */
export type ReserveState = "whole" | "given_up" | "absent";

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
