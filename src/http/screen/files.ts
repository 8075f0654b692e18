import { readdir, readFile } from "node:fs/promises";
import { join, sep } from "node:path";
import { createStaticBody, type StaticBody } from "../static-body.ts";

/** Complete files of the built screen by their URL path, which starts with "/". */
export type ScreenFiles = ReadonlyMap<string, StaticBody>;

const filesMax = 1_000;

/**
 * Reads every file of the built screen, once, at start-up. The build has put the compressed forms
 * of a file beside it, as `<name>.br` and `<name>.gz`: to make them takes longer than the rest of a
 * start. Undefined if the screen is not built. Throws if there are more than `filesMax` files,
 * because then it is the wrong folder.
 */
export async function readScreenFiles(folder: string): Promise<ScreenFiles | undefined> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  const names = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  if (names.length > filesMax) throw new Error(`${folder} has more files than a screen: ${names.length}`);
  const contents = new Map(
    await Promise.all(names.map(async (name) => [name, await readFile(name)] as const)),
  );
  const byPath = new Map<string, StaticBody>();
  for (const [name, plain] of contents) {
    if (/\.(br|gz)$/.test(name)) continue;
    const contentType = contentTypes[name.slice(name.lastIndexOf("."))] ?? "application/octet-stream";
    const [br, gzip] = [contents.get(`${name}.br`), contents.get(`${name}.gz`)];
    const compressed = { ...(br && { br }), ...(gzip && { gzip }) };
    byPath.set(
      name.slice(folder.length).split(sep).join("/"),
      createStaticBody(plain, { contentType, compressed }),
    );
  }
  return byPath.has("/index.html") ? byPath : undefined;
}

const contentTypes: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".ico": "image/x-icon",
  ".woff2": "font/woff2",
};
