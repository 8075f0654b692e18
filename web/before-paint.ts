// Runs as a classic script before the first paint. `frame/theme.ts` writes the value that it reads.
{
  const kept = localStorage.getItem("theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
}
