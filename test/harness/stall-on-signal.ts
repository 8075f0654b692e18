import { fileURLToPath } from "node:url";

/**
 * The command of a Keyrun whose event loop stands still for so long at each SIGUSR2, as in a long
 * computation. It imports a file before Keyrun's first one, so the product needs no way to do it.
 */
export function stallOnSignal(stallMs: number): readonly string[] {
  const preload = new URL("stalling-preload.mjs", import.meta.url);
  preload.searchParams.set("ms", String(stallMs));
  return [process.execPath, "--import", preload.href, fileURLToPath(main), "serve"];
}

const main = new URL("../../src/main.ts", import.meta.url);
