/** A page of a team's settings. */
export type SettingsPage = "api-keys" | "activity";

/** The page that a path of the screen shows. */
export type Route =
  | { readonly page: "home" }
  | { readonly page: SettingsPage; readonly teamId: string }
  | { readonly page: "sign-in" }
  | { readonly page: "sign-in-link" }
  | { readonly page: "unknown" };

/**
 * The route of a path. Any one segment can be a team id: the server says whether the team exists.
 */
export function routeOf(pathname: string): Route {
  if (pathname === "/") return { page: "home" };
  if (pathname === "/sign-in") return { page: "sign-in" };
  if (pathname === "/sign-in/link") return { page: "sign-in-link" };
  const [, teamId, page] = /^\/settings\/team\/([^/]+)\/(api-keys|activity)$/.exec(pathname) ?? [];
  return teamId === undefined ? { page: "unknown" } : { page: page as SettingsPage, teamId };
}

/** The path of a page of a team's settings. */
export function settingsPath(teamId: string, page: SettingsPage = "api-keys"): string {
  return `/settings/team/${encodeURIComponent(teamId)}/${page}`;
}

/** The path of the sign-in page that leads back to `path` afterwards. */
export function signInPath(path: string): string {
  return `/sign-in?${new URLSearchParams({ return_to: path })}`;
}

/** The path in `return_to` of an address; "/" when there is none or it leads to another origin. */
export function returnPath(href: string): string {
  const here = new URL(href);
  const target = here.searchParams.get("return_to") ?? "/";
  if (!target.startsWith("/") || !URL.canParse(target, here.origin)) return "/";
  const url = new URL(target, here.origin);
  // A browser would read a path that begins with two slashes as another host.
  if (url.origin !== here.origin || url.pathname.startsWith("//")) return "/";
  return `${url.pathname}${url.search}`;
}
