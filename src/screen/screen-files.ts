import { readdir, readFile } from "node:fs/promises";
import { join, sep } from "node:path";
import { createStaticBody, type StaticBody } from "../http/static-body.ts";

/** Complete files of the built screen by their URL path, which starts with "/". */
export type ScreenFiles = ReadonlyMap<string, StaticBody>;

const filesMax = 1_000;

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

function fileOf(name: string, plain: Buffer): Promise<StaticBody> {
  const extension = name.slice(name.lastIndexOf("."));
  const kind = kinds[extension] ?? { contentType: "application/octet-stream", isText: false };
  return createStaticBody(plain, kind);
}

const kinds: Readonly<Record<string, { contentType: string; isText: boolean }>> = {
  ".html": { contentType: "text/html; charset=utf-8", isText: true },
  ".js": { contentType: "text/javascript; charset=utf-8", isText: true },
  ".css": { contentType: "text/css; charset=utf-8", isText: true },
  ".svg": { contentType: "image/svg+xml", isText: true },
  ".png": { contentType: "image/png", isText: false },
  ".ico": { contentType: "image/x-icon", isText: false },
  ".woff2": { contentType: "font/woff2", isText: false },
};
