// Runs as a classic script before the first paint.
{
  const root = document.documentElement;
  // `frame/theme.ts` writes this value.
  const kept = localStorage.getItem("theme");
  if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  // The document holds the first view of a team's keys, without data. Other pages don't show it.
  if (/^\/(settings\/team\/[^/]+\/api-keys)?$/.test(location.pathname)) root.dataset.page = "api-keys";
}
