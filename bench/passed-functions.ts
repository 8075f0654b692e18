// Loaded into Keyrun's own process by `--import`. It tells on the socket of PASSED_FUNCTIONS which
// functions of `src/` were called since it was asked before, by V8's precise coverage.
import { readFileSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { createServer } from "node:net";
import { fileURLToPath } from "node:url";

const sourceUrl = new URL("../src/", import.meta.url).href;

const session = new Session();
session.connect();
await session.post("Profiler.enable");
await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });

/** Each as its file, its line and its name. To take the coverage sets all counts back to zero. */
async function passed(): Promise<readonly string[]> {
  const { result } = await session.post("Profiler.takePreciseCoverage");
  return result
    .filter(({ url }) => url.startsWith(sourceUrl))
    .flatMap(({ url, functions }) => {
      const called = functions.filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0);
      if (called.length === 0) return [];
      // Node replaces types by spaces, so a place in the code is the same one in the file.
      const source = readFileSync(fileURLToPath(url), "utf8");
      return called.map(({ functionName, ranges }) => {
        const line = source.slice(0, ranges[0]?.startOffset).split("\n").length;
        return `src/${url.slice(sourceUrl.length)}:${line} ${functionName || "(no name)"}`;
      });
    });
}

const server = createServer((socket) => {
  // One word is asked at a time, and any will do.
  socket.on("data", () => void passed().then((functions) => socket.write(`${JSON.stringify(functions)}\n`)));
});
server.listen(process.env.PASSED_FUNCTIONS).unref();
