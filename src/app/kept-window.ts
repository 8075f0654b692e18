import type { Limiter } from "../limit/limiter.ts";
import { readWindow, writeWindow } from "../limit/saved-window.ts";
import type { WindowStore } from "../limit/window-store.ts";
import type { Log } from "../log.ts";

export interface KeptWindowParts {
  readonly limiter: Pick<Limiter, "save" | "restore">;
  readonly store: WindowStore;
  readonly log: Log;
}

/**
 * Takes up the requests of the running minute that the last clean stop kept, once. Where they can't
 * be read, every window starts empty: that must not stop the start.
 */
export async function takeUpWindow({ limiter, store, log }: KeptWindowParts): Promise<void> {
  try {
    limiter.restore(readWindow(await store.take()));
  } catch (err) {
    log.warn({ err }, "the counted requests of the last stop could not be read: every limit counts anew");
  }
}

/** Keeps the requests of the running minute for the next start. Never throws. */
export async function keepWindow({ limiter, store, log }: KeptWindowParts): Promise<void> {
  try {
    const { pages, leftOut } = writeWindow(limiter.save());
    await store.keep(pages);
    if (leftOut > 0) {
      log.warn({ teams: leftOut }, "there was no room for all counted requests: these teams count anew");
    }
  } catch (err) {
    log.warn({ err }, "the counted requests could not be kept: the next start counts anew");
  }
}
