import { readWindow, type SavedWindow, writeWindow } from "../limit/saved-window.ts";
import type { KeptPage, WindowStore } from "../limit/window-store.ts";
import type { Log } from "../log/log.ts";

export interface KeptWindowParts {
  /** That of this process, or the one that a fleet shares. */
  readonly limiter: {
    save(): SavedWindow | Promise<SavedWindow>;
    restore(saved: SavedWindow): void | Promise<void>;
  };
  readonly store: WindowStore;
  readonly log: Log;
}

/**
 * Takes up the requests of the running minute that clean stops kept, once. Where they can't be
 * read, every window starts empty: that must not stop the start. They are removed last, so that of
 * several instances that start together none serves before they are taken up. What another instance
 * keeps meanwhile stays.
 */
export async function takeUpWindow(parts: KeptWindowParts): Promise<void> {
  const { limiter, store, log } = parts;
  let pages: readonly KeptPage[] = [];
  try {
    pages = await store.read();
    if (pages.length > 0) await limiter.restore(readWindow(pages.map(({ text }) => text)));
  } catch (err) {
    log.warn({ err }, "the counted requests of the last stop could not be read: every limit counts anew");
  }
  await remove(pages, parts);
}

/**
 * Keeps the requests of the running minute for the next start. Never throws. Of a fleet every
 * instance keeps them, as none can know that another goes on. What was kept before the logs were
 * read is in them, so it is removed; what is kept meanwhile may be more, and stays.
 */
export async function keepWindow(parts: KeptWindowParts): Promise<void> {
  const { limiter, store, log } = parts;
  let before: readonly KeptPage[] = [];
  try {
    before = await store.read();
    const { pages, leftOut } = writeWindow(await limiter.save());
    await store.keep(pages);
    if (leftOut > 0) {
      log.warn({ teams: leftOut }, "there was no room for all counted requests: these teams count anew");
    }
  } catch (err) {
    log.warn({ err }, "the counted requests could not be kept: the next start counts anew");
    return;
  }
  await remove(before, parts);
}

/** Pages that stay are harmless: a start that reads them again counts no request twice. */
async function remove(pages: readonly KeptPage[], { store, log }: KeptWindowParts): Promise<void> {
  if (pages.length === 0) return;
  try {
    await store.remove(pages);
  } catch (err) {
    log.warn({ err }, "counted requests that are taken up could not be removed: no limit is affected");
  }
}
