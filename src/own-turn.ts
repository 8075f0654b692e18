const waiting: (() => void)[] = [];

/**
 * Resolves in a later turn of the event loop, in which it resolves for nobody else: for a piece of
 * work that takes some milliseconds. However many callers ask for it at once, what comes in between
 * waits for one piece.
 */
export function ownTurn(): Promise<void> {
  return new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(next);
  });
}

function next(): void {
  waiting.shift()?.();
  if (waiting.length > 0) setImmediate(next);
}
