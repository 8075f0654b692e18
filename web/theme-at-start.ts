// Runs as a classic script before the first paint; `frame/theme.ts` writes what this reads.
{
  const kept = localStorage.getItem("theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
}
