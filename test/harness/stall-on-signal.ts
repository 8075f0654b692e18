import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { KeyrunProcess } from "./keyrun-process.ts";

/** A Keyrun whose event loop the test can hold, as a long computation does. */
export interface Stalling {
  /** It imports a file before Keyrun's first one, so the product needs no way to do it. */
  readonly command: readonly string[];
  /**
   * Holds its event loop from before the work until after it, for so long at least. It stands still
   * when the work begins, however late a busy machine delivers the signal. What the work sends
   * lies in its sockets.
   */
  hold<Result>(keyrun: Pick<KeyrunProcess, "kill">, ms: number, work: () => Promise<Result>): Promise<Result>;
}

export function stallOnSignal(folder: string): Stalling {
  const file = join(folder, "hold");
  const begun = `${file}.begun`;
  const preload = new URL("stalling-preload.mjs", import.meta.url);
  preload.searchParams.set("hold", file);
  return {
    command: [process.execPath, "--import", preload.href, fileURLToPath(main), "serve"],
    async hold(keyrun, ms, work) {
      rmSync(begun, { force: true });
      writeFileSync(file, "");
      try {
        keyrun.kill("SIGUSR2");
        while (!existsSync(begun)) await pause(5);
        const [result] = await Promise.all([work(), pause(ms)]);
        return result;
      } finally {
        rmSync(file);
      }
    },
  };
}

const main = new URL("../../src/main.ts", import.meta.url);
