import type { Screen } from "./screen.ts";

/**
 * Holds what a page that is opened from now on would do after exactly one of these waits, once or
 * again and again. The function that it returns lets it happen, as if the waits were over. So the
 * test says when, however slow the machine is.
 */
export async function holdTimers(
  { page, context }: Screen,
  ...waitsMs: readonly number[]
): Promise<() => Promise<void>> {
  await context.addInitScript({
    content: `{
      window.heldTimers = new Map();
      // The numbers of other timers are positive.
      let lastId = 0;
      for (const [start, stop] of [["setTimeout", "clearTimeout"], ["setInterval", "clearInterval"]]) {
        const startOther = window[start];
        const stopOther = window[stop];
        window[start] = (run, ms, ...rest) => {
          if (!${JSON.stringify(waitsMs)}.includes(ms)) return startOther(run, ms, ...rest);
          lastId -= 1;
          window.heldTimers.set(lastId, { run: () => run(...rest), once: start === "setTimeout" });
          return lastId;
        };
        window[stop] = (id) => void (window.heldTimers.delete(id) || stopOther(id));
      }
    }`,
  });
  return () =>
    page.evaluate(`{
      for (const [id, { run, once }] of [...window.heldTimers]) {
        if (!window.heldTimers.has(id)) continue;
        if (once) window.heldTimers.delete(id);
        run();
      }
    }`);
}
