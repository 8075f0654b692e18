// See stall-on-signal.ts.
const stallMs = Number(new URL(import.meta.url).searchParams.get("ms"));

process.on("SIGUSR2", () => {
  const until = performance.now() + stallMs;
  while (performance.now() < until);
});
