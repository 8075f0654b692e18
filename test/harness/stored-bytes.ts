import { execFile } from "node:child_process";
import { promisify } from "node:util";

const run = promisify(execFile);

/**
 * The rows of a read-only query of the embedded store. Another process makes it: a process that has
 * a database open loses its POSIX locks when it closes any other handle of the file.
 */
export async function queryStore(dataDir: string, sql: string): Promise<Record<string, unknown>[]> {
  const program = `
    const { DatabaseSync } = await import("node:sqlite");
    const db = new DatabaseSync(process.argv[1] + "/keyrun.db", { readOnly: true });
    process.stdout.write(JSON.stringify(db.prepare(process.argv[2]).all()));`;
  const args = ["--input-type=module", "--eval", program, dataDir, sql];
  const { stdout } = await run(process.execPath, args);
  return JSON.parse(stdout);
}

/** The files that contain a needle, as `file: index of the needle`. Another process reads them. */
export async function searchFolder(folder: string, needles: readonly string[]): Promise<string[]> {
  const program = `
    const { readdirSync, readFileSync } = await import("node:fs");
    const [folder, ...needles] = JSON.parse(process.argv[1]);
    const found = [];
    let files = 0;
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      files += 1;
      const bytes = readFileSync(entry.parentPath + "/" + entry.name);
      needles.forEach((needle, index) => bytes.includes(needle) && found.push(entry.name + ": " + index));
    }
    if (files === 0) throw new Error("no files");
    process.stdout.write(JSON.stringify(found));`;
  const args = ["--input-type=module", "--eval", program, JSON.stringify([folder, ...needles])];
  const { stdout } = await run(process.execPath, args);
  return JSON.parse(stdout);
}
