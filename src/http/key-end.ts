/** When a key that is accepted now will end. */
export interface KeyEnd {
  readonly timeMs: number;
  /** The same in RFC 3339. */
  readonly time: string;
  /** Whether another key has taken its place. */
  readonly isReplaced: boolean;
}

/** How long before its end the answers to a key say when that is. */
export const keyEndNoticeMs = 14 * 24 * 60 * 60 * 1_000;

/**
 * The headers of an answer to a key that ends, names and values in turn; none before the key's last
 * 14 days, unless it is replaced.
 */
export function keyEndHeaders({ timeMs, time, isReplaced }: KeyEnd, nowMs: number): string[] {
  if (isReplaced) return ["X-Key-Expires", time, "X-Key-Replaced", "true"];
  return timeMs - nowMs <= keyEndNoticeMs ? ["X-Key-Expires", time] : [];
}
