import { CommandFailure } from "./command-failure.ts";

/** As many as a page may hold, so that a list takes few calls. */
export const pageSize = 100;

/** More than a command's table is good for, and an end where a server should never come to one. */
const pagesMax = 1_000;

/**
 * Every page of a list (AIP-158), in order: `fetch` is called with each page's token. Throws where the list has
 * more than `pagesMax` pages.
 */
export async function allPages<Page extends { nextPageToken: string }>(
  fetch: (pageToken: string) => Promise<Page>,
): Promise<readonly [Page, ...Page[]]> {
  const pages: [Page, ...Page[]] = [await fetch("")];
  let next = pages[0].nextPageToken;
  while (next !== "") {
    if (pages.length === pagesMax) {
      throw new CommandFailure(`The list is longer than ${pagesMax * pageSize} entries: read it over gRPC.`);
    }
    const page = await fetch(next);
    pages.push(page);
    next = page.nextPageToken;
  }
  return pages;
}
