import { CommandFailure } from "./command-failure.ts";

/** The largest page that the server gives, so that a list takes few calls. */
export const pageSize = 100;

/** Nobody reads longer tables. Also ends the loop if a server always names a next page. */
const pagesMax = 1_000;

/**
 * Fetches every page of a list (AIP-158), in order. `fetch` is called with the token of each page.
 * Throws if the list has more than `pagesMax` pages.
 */
export async function allPages<Page extends { nextPageToken?: string }>(
  fetch: (pageToken: string) => Promise<Page>,
): Promise<readonly [Page, ...Page[]]> {
  const pages: [Page, ...Page[]] = [await fetch("")];
  let next = pages[0].nextPageToken ?? "";
  while (next !== "") {
    if (pages.length === pagesMax) {
      throw new CommandFailure(`The list is longer than ${pagesMax * pageSize} entries: read it over gRPC.`);
    }
    const page = await fetch(next);
    pages.push(page);
    next = page.nextPageToken ?? "";
  }
  return pages;
}
