import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join, sep } from "node:path";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";

/** A complete file of the built screen, in every encoding that can be served. */
export interface ScreenFile {
  readonly contentType: string;
  /** The hash of the uncompressed bytes. The same file has the same hash after a restart. */
  readonly hash: string;
  readonly plain: Uint8Array;
  /** Absent if it would not be smaller. */
  readonly br?: Uint8Array;
  readonly gzip?: Uint8Array;
}

/** Files by their URL path, which starts with "/". */
export type ScreenFiles = ReadonlyMap<string, ScreenFile>;

const filesMax = 1_000;
const brotliQuality = 9; // Nearly the smallest result, and fast enough at start-up.

/**
 * Reads and compresses every file of the built screen, once, at start-up. Undefined if the screen
 * is not built. Throws if there are more than `filesMax` files, because then it is the wrong
 * folder.
 */
export async function readScreenFiles(folder: string): Promise<ScreenFiles | undefined> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  const names = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  if (names.length > filesMax) throw new Error(`${folder} has more files than a screen: ${names.length}`);
  const read = async (name: string) =>
    [name.slice(folder.length).split(sep).join("/"), fileOf(name, await readFile(name))] as const;
  const files = await Promise.all(names.map(read));
  const settled = await Promise.all(files.map(async ([path, file]) => [path, await file] as const));
  const byPath = new Map(settled);
  return byPath.has("/index.html") ? byPath : undefined;
}

async function fileOf(name: string, plain: Buffer): Promise<ScreenFile> {
  const extension = name.slice(name.lastIndexOf("."));
  const kind = kinds[extension] ?? { type: "application/octet-stream", isText: false };
  const hash = createHash("sha256").update(plain).digest("base64url").slice(0, 22);
  const whole = { contentType: kind.type, hash, plain };
  if (!kind.isText) return whole;
  const params = { [constants.BROTLI_PARAM_QUALITY]: brotliQuality };
  const [br, gz] = await Promise.all([
    promisify(brotliCompress)(plain, { params }),
    promisify(gzip)(plain, { level: constants.Z_BEST_COMPRESSION }),
  ]);
  return {
    ...whole,
    ...(br.length < plain.length && { br }),
    ...(gz.length < plain.length && { gzip: gz }),
  };
}

const kinds: Readonly<Record<string, { type: string; isText: boolean }>> = {
  ".html": { type: "text/html; charset=utf-8", isText: true },
  ".js": { type: "text/javascript; charset=utf-8", isText: true },
  ".css": { type: "text/css; charset=utf-8", isText: true },
  ".svg": { type: "image/svg+xml", isText: true },
  ".png": { type: "image/png", isText: false },
  ".ico": { type: "image/x-icon", isText: false },
  ".woff2": { type: "font/woff2", isText: false },
};
