import { bounds } from "../config.ts";
import { fail } from "../error.ts";

const pageTokenCharactersMax = 1024;

/** Which page of a list a request asks for. */
export interface Page {
  readonly limit: number;
  /** Where the page goes on, in the list's own words; absent for the first page. */
  readonly after?: string;
}

/**
 * Reads `page_size` and `page_token` (AIP-158). `scope` says which list this is, with everything in the request
 * that shapes it: a token of another list is refused with INVALID_ARGUMENT, and so are a negative size and a
 * token that is none. A size over `pageSizeMax` counts as `pageSizeMax`.
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

/** The page, and the token of the next one: `found` was read with one more than `limit` to see whether there is one. */
export function cutPage<T>(found: readonly T[], page: Page, scope: string, position: (last: T) => string) {
  const items = found.slice(0, page.limit);
  const last = items.at(-1);
  const more = found.length > page.limit && last !== undefined;
  return { items, nextPageToken: more ? writeToken(position(last), scope) : "" };
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
    // Not a token: said below.
  }
  throw fail("INVALID_ARGUMENT", {
    param: "page_token",
    problem: "page_token must be the next_page_token of the page before, with the same other fields.",
  });
}
