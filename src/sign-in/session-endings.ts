/** The listeners that wait for the end of a session. */
export interface Endings {
  /** Adds a listener to the session's end. The returned function removes it. */
  on(sessionId: string, listener: () => void): () => void;
  /** Calls each listener of the session once, and removes them. */
  notify(sessionId: string): void;
}

export function createEndings(): Endings {
  const listeners = new Map<string, Set<() => void>>();
  return {
    on(sessionId, listener) {
      const own = () => listener();
      const all = listeners.get(sessionId) ?? new Set();
      listeners.set(sessionId, all.add(own));
      return () => {
        all.delete(own);
        if (all.size === 0 && listeners.get(sessionId) === all) listeners.delete(sessionId);
      };
    },
    notify(sessionId) {
      const all = listeners.get(sessionId) ?? [];
      listeners.delete(sessionId);
      for (const listener of all) listener();
    },
  };
}
