/** The files that a scan reads below a path, and their bytes. */

import { constants, type Dirent } from "node:fs";
import { lstat, open, readdir, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** Bytes of a file that are in memory at once. */
export const chunkBytes = 256 * 1024;

export interface ScannedFile {
  readonly path: string;
  /** Its bytes, piece by piece. A piece is void once the next is asked for. */
  bytes(): AsyncIterable<Uint8Array>;
}

/**
 * The file, or all files of the folder and below, in the order of their names. Follows the path
 * itself where it is a link, and no link inside of a folder: a link may lead out of it, or round in
 * a circle. Reads the path itself to its end also where it is a pipe or a device, such as
 * /dev/stdin. Inside of a folder these and sockets are left out, since they may have no end, and so
 * are git's objects, which are compressed. What can't be read is told by `unreadable` and left out.
 */
export async function* scannedFiles(
  path: string,
  unreadable: (path: string, error: unknown) => void,
): AsyncGenerator<ScannedFile> {
  const kind = await stat(path).catch((error) => void unreadable(path, error));
  if (kind?.isDirectory()) yield* filesIn(path, unreadable);
  else if (kind) yield { path, bytes: () => bytesOf(path, constants.O_RDONLY) };
}

async function* filesIn(
  folder: string,
  unreadable: (path: string, error: unknown) => void,
): AsyncGenerator<ScannedFile> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((error): Dirent[] => {
    unreadable(folder, error);
    return [];
  });
  entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const entry of entries) {
    const path = join(folder, entry.name);
    if (entry.isFile()) yield { path, bytes: () => bytesOf(path, fileItself) };
    if (entry.isDirectory() && !(await holdsGitObjects(path))) yield* filesIn(path, unreadable);
  }
}

const fileItself = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** In a clone it is `.git/objects`. A bare repository has its `HEAD` beside it. */
async function holdsGitObjects(folder: string): Promise<boolean> {
  if (basename(folder) !== "objects") return false;
  const head = await lstat(join(dirname(folder), "HEAD")).catch(() => undefined);
  return head?.isFile() ?? false;
}

async function* bytesOf(path: string, flags: number): AsyncGenerator<Uint8Array> {
  const file = await open(path, flags);
  try {
    const buffer = Buffer.allocUnsafe(chunkBytes);
    for (;;) {
      const { bytesRead } = await file.read(buffer, 0, buffer.length);
      if (bytesRead === 0) return;
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await file.close();
  }
}
