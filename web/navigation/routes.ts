/** What an address of the screen shows. */
export type Route =
  | { readonly page: "home" }
  | { readonly page: "api-keys"; readonly teamId: string }
  | { readonly page: "sign-in" }
  | { readonly page: "sign-in-link" }
  | { readonly page: "unknown" };

/** The route of a path. A team id is any one segment: whether there is such a team is the server's to say. */
export function routeOf(pathname: string): Route {
  if (pathname === "/") return { page: "home" };
  if (pathname === "/sign-in") return { page: "sign-in" };
  if (pathname === "/sign-in/link") return { page: "sign-in-link" };
  const teamId = /^\/settings\/team\/([^/]+)\/api-keys$/.exec(pathname)?.[1];
  return teamId === undefined ? { page: "unknown" } : { page: "api-keys", teamId };
}

/** Where the keys of a team are shown. */
export function apiKeysPath(teamId: string): string {
  return `/settings/team/${encodeURIComponent(teamId)}/api-keys`;
}

/** Where to sign in so that the person comes back to `path`. */
export function signInPath(path: string): string {
  return `/sign-in?${new URLSearchParams({ return_to: path })}`;
}

/** The path to go back to, from an address with `return_to`; "/" unless it is a path of this very origin. */
export function returnPath(href: string): string {
  const here = new URL(href);
  const target = here.searchParams.get("return_to") ?? "/";
  if (!target.startsWith("/") || !URL.canParse(target, here.origin)) return "/";
  const url = new URL(target, here.origin);
  // A path that begins with two slashes would be read as another host when it is used.
  if (url.origin !== here.origin || url.pathname.startsWith("//")) return "/";
  return `${url.pathname}${url.search}`;
}
