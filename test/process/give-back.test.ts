import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { repository } from "../harness/keyrun-process.ts";

/** Takes 240 MB in pieces below glibc's threshold, and frees all but every 50th. */
const program = `
  import { loadTrim } from "./src/serve.ts";
  const trim = loadTrim();
  let pieces = Array.from({ length: 4_000 }, () => Buffer.alloc(60_000, 1));
  const kept = pieces.filter((_, at) => at % 50 === 0);
  pieces = undefined;
  gc();
  setTimeout(() => {
    const before = process.memoryUsage.rss();
    trim();
    console.log(Math.round((before - process.memoryUsage.rss()) / 1e6), kept.length);
  }, 1_000);
`;

test("what glibc keeps of a load is given back on this Node, and nothing is said of it", async () => {
  const { stdout, stderr } = await promisify(execFile)(
    process.execPath,
    ["--expose-gc", "--input-type=module", "--eval", program],
    { cwd: repository, env: { ...process.env, MALLOC_MMAP_THRESHOLD_: "131072" } },
  );
  expect(stderr).toBe("");
  // Node 24 has no way to call `malloc_trim`.
  const isOld = Number.parseInt(process.versions.node, 10) < 26;
  expect(Number.parseInt(stdout, 10)).toBeGreaterThan(isOld ? -1 : 150);
});
