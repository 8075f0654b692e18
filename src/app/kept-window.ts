import type { Limiter } from "../limit/limiter.ts";
import { readWindow, writeWindow } from "../limit/saved-window.ts";
import type { KeptPage, WindowStore } from "../limit/window-store.ts";
import type { Log } from "../log/log.ts";

export interface KeptWindowParts {
  /** Undefined in a fleet: Redis has the requests that count, so nothing is kept or taken up. */
  readonly limiter: Pick<Limiter, "save" | "restore"> | undefined;
  readonly store: WindowStore;
  readonly log: Log;
}

/**
 * Takes up the requests of the running minute that the last clean stop kept, once. Where they can't
 * be read, every window starts empty: that must not stop the start. They are removed after they are
 * taken up. What another instance keeps meanwhile stays. A fleet begins a new window: it removes
 * what an instance alone has kept.
 */
export async function takeUpWindow(parts: KeptWindowParts): Promise<void> {
  const { limiter, store, log } = parts;
  let pages: readonly KeptPage[] = [];
  try {
    pages = await store.read();
    if (pages.length > 0) limiter?.restore(readWindow(pages.map(({ text }) => text)));
  } catch (err) {
    log.warn({ err }, "the counted requests of the last stop could not be read: every limit counts anew");
  }
  await remove(pages, parts);
}

/**
 * Keeps the requests of the running minute for the next start. Never throws. What was kept before
 * is in the logs, so it is removed; what is kept meanwhile stays.
 */
export async function keepWindow(parts: KeptWindowParts): Promise<void> {
  const { limiter, store, log } = parts;
  if (!limiter) return;
  let before: readonly KeptPage[] = [];
  try {
    before = await store.read();
    const { pages, leftOut } = writeWindow(limiter.save());
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
