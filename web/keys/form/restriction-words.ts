/**
 * What a key is restricted to: "2 apps, 10 requests a minute". "Every app, the team’s limit" if to
 * nothing.
 */
export function restrictionsInWords(appIds: readonly string[], requestsPerMinute: string): string {
  if (appIds.length === 0 && requestsPerMinute === "") return "Every app, the team’s limit";
  const apps = appIds.length === 0 ? "Every app" : appIds.length === 1 ? "1 app" : `${appIds.length} apps`;
  return requestsPerMinute === "" ? apps : `${apps}, ${requestsPerMinute} a minute`;
}
