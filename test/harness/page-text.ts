/** The addresses on a page, and the addresses that its commands use in the test. */
export type Places = Map<string, string>;

/** Replaces the addresses of the page by those of the test. */
export function asHere(text: string, places: Places): string {
  return [...places].reduce((put, [onPage, here]) => put.replaceAll(onPage, here), text);
}

/** Replaces the addresses of the test by those of the page. */
export function asPage(text: string, places: Places): string {
  return [...places]
    .filter(([, here]) => here !== "")
    .reduce((put, [onPage, here]) => put.replaceAll(here, onPage), text);
}

/**
 * Whether the output is what the page says: the same lines, but for ids, keys and times. A line `…`
 * of the page matches any lines.
 */
export function isSaid(printed: string, page: string, places: Places): boolean {
  const lines = plain(page)
    .split("\n")
    .map((line) => (line === "…" ? "(.*\\n)*?" : `${literally(line)}\\n`));
  return new RegExp(`^${lines.join("")}$`).test(`${plain(asPage(printed, places))}\n`);
}

function literally(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}

/** Replaces values that differ in each run by a word for their kind. */
function plain(text: string): string {
  return kinds.reduce((put, [pattern, word]) => put.replace(pattern, word), text).trimEnd();
}

const kinds: readonly (readonly [pattern: RegExp, word: string])[] = [
  [/\r/g, ""],
  [/svc_[0-9a-z]{24}\.[0-9A-Za-z]{49}/g, "<key>"],
  [/svc_[0-9a-z]{4}….{4}/g, "<redacted>"],
  [/run_[0-9a-z]{24}/g, "<run>"],
  [/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "<uuid>"],
  [/\b[0-9a-hjkmnp-tv-z]{24}\b/g, "<id>"],
  [/\bversion [0-9a-f]{8}\b/g, "version <version>"],
  [/\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z/g, "<time>"],
  [/\b\d{4}-\d{2}-\d{2}\b/g, "<day>"],
  [/^(RateLimit-Reset|Date): .*/gm, "$1: <time>"],
  [/;t=\d+/g, ";t=<seconds>"],
];
