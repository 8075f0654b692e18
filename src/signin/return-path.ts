const pathCharactersMax = 1_024;

/**
 * Where to go after signing in: a path of the screen with its query, or "/" for whatever else was asked. Never
 * another origin (an open redirect), and never back into signing in, which would go round for ever.
 */
export function readReturnPath(value: string | null | undefined, origin: string): string {
  if (!value?.startsWith("/") || value.length > pathCharactersMax || !URL.canParse(value, origin)) return "/";
  const url = new URL(value, origin);
  // A path that begins with two slashes would be read as another host once it stands in a Location.
  if (url.origin !== origin || url.pathname.startsWith("//")) return "/";
  return /^\/sign-in(\/|$)/.test(url.pathname) ? "/" : `${url.pathname}${url.search}`;
}
