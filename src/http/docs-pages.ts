/** The pages of the documentation, whose commands call the Keyrun that serves them. */

import { compress, createStaticBody, htmlOf, type StaticBody } from "./static-body.ts";

/** The address in the commands of the pages, for those who read them in the repository. */
const exampleOrigin = "http://127.0.0.1:8080";

/** It is compressed while the caller waits, so this is one of the fast qualities. */
const brotliQuality = 5;

/** Returns a page with this address in its commands: scheme, host and port. */
export type AddressedPage = (page: StaticBody, origin: string) => Promise<StaticBody>;

/**
 * Keeps each page as it was for the last address: nearly always there is one. A page that names no
 * address stays as it is.
 */
export function createDocsPages(): AddressedPage {
  const last = new Map<StaticBody, { readonly origin: string; readonly made: Promise<StaticBody> }>();
  return (page, origin) => {
    const known = last.get(page);
    if (known?.origin === origin) return known.made;
    const made = withOrigin(page, origin);
    last.set(page, { origin, made });
    return made;
  };
}

async function withOrigin(page: StaticBody, origin: string): Promise<StaticBody> {
  const text = Buffer.from(page.plain).toString();
  if (origin === exampleOrigin || !text.includes(exampleOrigin)) return page;
  // A caller may have named the host, so it is text and no HTML.
  const safe = htmlOf(origin);
  const plain = Buffer.from(text.replaceAll(exampleOrigin, () => safe));
  return createStaticBody(plain, {
    contentType: page.contentType,
    compressed: await compress(plain, { brotliQuality }),
  });
}
