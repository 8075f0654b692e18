/** Who waits for the end of which session. */
export interface Endings {
  on(sessionId: string, listener: () => void): () => void;
  /** Calls the session's listeners, each once, and forgets them. */
  tell(sessionId: string): void;
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
    tell(sessionId) {
      const all = listeners.get(sessionId) ?? [];
      listeners.delete(sessionId);
      for (const listener of all) listener();
    },
  };
}
