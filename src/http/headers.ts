/** Header fields: lists of names and values, what a caller prefers, and when its key ends. */

import { bounds } from "../bounds.ts";

/** Returns alternating names and values as `Headers`, without pseudo-headers such as `:path`. */
export function headersOf(flat: readonly string[]): Headers {
  const headers = new Headers();
  for (const [name, value] of pairsOf(flat)) {
    if (!name.startsWith(":")) headers.append(name, value);
  }
  return headers;
}

/** Returns alternating names and values as pairs. */
export function* pairsOf(flat: readonly string[]): Generator<[name: string, value: string]> {
  for (let at = 0; at + 1 < flat.length; at += 2) yield [flat[at] ?? "", flat[at + 1] ?? ""];
}

/** Returns the headers as alternating names and values. */
export function flatHeaders(headers: Headers | undefined): string[] {
  return headers === undefined ? [] : [...headers].flat();
}

/**
 * Names and values of the headers of every streamed answer: what stands between Keyrun and its
 * caller then passes each message on at once.
 */
export const streamHeaders: readonly string[] = [
  // What compresses an answer holds back its messages until it has enough of them.
  ...["Cache-Control", "no-store, no-transform"],
  // Nginx would fill a buffer first.
  ...["X-Accel-Buffering", "no"],
];

/**
 * Returns the media type that the caller prefers by its `Accept` header (RFC 9110, section 12.5.1):
 * the one with the highest weight, of equals the one that is named more exactly, and of those the
 * first. Also the first if the header is absent, or allows none of them: an answer in another type
 * tells more than none.
 */
export function preferredType<Type extends string>(
  accept: string | undefined,
  types: readonly [Type, ...Type[]],
): Type {
  if (accept === undefined) return types[0];
  const ranges = optionsIn(accept);
  let [best] = types;
  let bestRank = rankOf(best, ranges);
  for (const type of types.slice(1)) {
    const rank = rankOf(type, ranges);
    const isAsGood = rank.weight > 0 && rank.weight === bestRank.weight;
    if (rank.weight > bestRank.weight || (isAsGood && rank.exactness > bestRank.exactness)) {
      best = type;
      bestRank = rank;
    }
  }
  return best;
}

/**
 * Returns the weight of a content coding in an `Accept-Encoding` header (RFC 9110, section 12.5.3);
 * 0 if it is not named. `*` counts for nothing, because no coding at all is always allowed.
 */
export function weightOfCoding(acceptEncoding: string | undefined, coding: string): number {
  const named = optionsIn(acceptEncoding ?? "").filter(({ name }) => name === coding);
  return Math.max(0, ...named.map(({ weight }) => weight));
}

/** One option of such a header. Parameters other than the weight are ignored. */
interface Option {
  readonly name: string;
  readonly weight: number;
}

/** Options past the bound are ignored: a header of commas alone would take milliseconds. */
function optionsIn(header: string): Option[] {
  return header.split(",", bounds.preferencesMax).map((option) => {
    const [name = "", ...parameters] = option
      .split(";", bounds.preferenceParametersMax)
      .map((text) => text.trim().toLowerCase());
    const sent = parameters.find((parameter) => /^q=./.test(parameter));
    const weight = sent === undefined ? 1 : Number(sent.slice(2));
    // A weight that is no number counts as none.
    return { name, weight: Number.isNaN(weight) ? 1 : Math.min(1, Math.max(0, weight)) };
  });
}

/** The most exact range that matches a type decides its weight. */
function rankOf(type: string, ranges: readonly Option[]): { weight: number; exactness: number } {
  const patterns = ["*/*", `${type.slice(0, type.indexOf("/"))}/*`, type];
  for (let exactness = patterns.length - 1; exactness >= 0; exactness -= 1) {
    const matching = ranges.filter(({ name }) => name === patterns[exactness]);
    if (matching.length > 0) return { weight: Math.max(...matching.map(({ weight }) => weight)), exactness };
  }
  return { weight: 0, exactness: -1 };
}

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
