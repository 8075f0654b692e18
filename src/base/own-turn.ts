/**
 * Returns a function that resolves in a later turn of the event loop, in the order of the calls. In
 * one turn it resolves at most `piecesMax` of them. However many callers ask for it at once, what
 * comes in between waits for so many pieces of work.
 */
export function createOwnTurns(piecesMax: number): () => Promise<void> {
  const waiting: (() => void)[] = [];
  const next = () => {
    for (const resolve of waiting.splice(0, piecesMax)) resolve();
    if (waiting.length > 0) setImmediate(next);
  };
  return () =>
    new Promise((resolve) => {
      if (waiting.push(resolve) === 1) setImmediate(next);
    });
}

/** For a piece of work that takes some milliseconds. */
export const ownTurn: () => Promise<void> = createOwnTurns(1);
