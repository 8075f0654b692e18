const pathCharactersMax = 1_024;

/**
 * Returns the path to open after sign-in: a path of the screen with its query, or "/" if another
 * value was asked for. It is never on another origin (an open redirect), and never a sign-in path,
 * which would be an endless loop.
 */
export function readReturnPath(value: string | null | undefined, origin: string): string {
  if (!value?.startsWith("/") || value.length > pathCharactersMax || !URL.canParse(value, origin)) return "/";
  const url = new URL(value, origin);
  // In a Location header a path that begins with two slashes would mean another host.
  if (url.origin !== origin || url.pathname.startsWith("//")) return "/";
  return /^\/sign-in(\/|$)/.test(url.pathname) ? "/" : `${url.pathname}${url.search}`;
}
