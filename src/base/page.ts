/** Lists page by page (AIP-158): which page a request asks for, and the token of the next one. */

import { bounds } from "../bounds.ts";
import { fail } from "../refusal/refusal.ts";

const pageTokenCharactersMax = 1024;

/** Which page of a list a request asks for. */
export interface Page {
  readonly limit: number;
  /** The position after which the page begins, in the list's own form. Absent: the first page. */
  readonly after?: string;
}

/**
 * Reads `page_size` and `page_token` (AIP-158). `scope` identifies the list and the fields that
 * filter it. Refuses with INVALID_ARGUMENT a negative size, a damaged token and a token of another
 * scope. A size over `pageSizeMax` counts as `pageSizeMax`.
 */
export function readPage(request: { pageSize: number; pageToken: string }, scope: string): Page {
  if (request.pageSize < 0) {
    throw fail("INVALID_ARGUMENT", {
      param: "page_size",
      problem: `page_size must be 1 to ${bounds.pageSizeMax}, or 0 for ${bounds.pageSizeDefault}.`,
    });
  }
  const limit = Math.min(request.pageSize || bounds.pageSizeDefault, bounds.pageSizeMax);
  if (request.pageToken === "") return { limit };
  return { limit, after: readToken(request.pageToken, scope) };
}

/**
 * The page and the token of the next one, empty after the last. `found` must be read with the limit
 * `page.limit + 1`: the extra item shows that there is a next page. `stoppedAt` is the position
 * where a bounded search ended, if that was before the end of the list.
 */
export function cutPage<T>(
  found: readonly T[],
  page: Page,
  scope: string,
  position: (last: T) => string,
  stoppedAt?: string,
) {
  const items = found.slice(0, page.limit);
  const last = items.at(-1);
  const isCut = found.length > page.limit && last !== undefined;
  const next = isCut ? position(last) : stoppedAt;
  return { items, nextPageToken: next === undefined ? "" : writeToken(next, scope) };
}

function writeToken(after: string, scope: string): string {
  return Buffer.from(JSON.stringify([scope, after])).toString("base64url");
}

function readToken(token: string, scope: string): string {
  try {
    const parts: unknown =
      token.length <= pageTokenCharactersMax && JSON.parse(Buffer.from(token, "base64url").toString());
    if (Array.isArray(parts) && parts.length === 2 && parts[0] === scope && typeof parts[1] === "string") {
      return parts[1];
    }
  } catch {
    // Refused below.
  }
  throw badToken();
}

/** A position in a list that is ordered by time and then by id. */
export interface Place {
  readonly timeMs: number;
  readonly id: string;
}

export function writePlace({ timeMs, id }: Place): string {
  return `${timeMs}/${id}`;
}

/** Refuses what `writePlace` can't have written: anyone can make a token with the right scope. */
export function readPlace(after: string): Place {
  const [, time, id] = /^([0-9]{1,16})\/([!-~]+)$/.exec(after) ?? [];
  const timeMs = Number(time);
  if (id !== undefined && Number.isSafeInteger(timeMs)) return { timeMs, id };
  throw badToken();
}

function badToken() {
  return fail("INVALID_ARGUMENT", {
    param: "page_token",
    problem:
      "page_token must be the next_page_token of the previous page, and all other fields must be unchanged.",
  });
}
