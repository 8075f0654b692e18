import { readFileSync } from "node:fs";
import { Readable } from "node:stream";
import { type CliWorld, createCli } from "#src/cli/cli.ts";

/** What surrounds a command besides its arguments. */
export interface Circumstances {
  readonly env?: CliWorld["env"];
  /** Standard input, chunk by chunk. */
  readonly stdin?: readonly string[];
  readonly serve?: CliWorld["serve"];
  readonly nodeVersion?: string;
  /** The width of the terminal that the command writes to. Absent: it writes to pipes. */
  readonly columns?: number;
}

/** Runs one command in this process. The result is its exit status and everything it wrote. */
export async function runCommand(
  argv: readonly string[],
  { env = {}, stdin = [], serve, nodeVersion = process.versions.node, columns }: Circumstances = {},
) {
  const [stdout, stderr]: [string[], string[]] = [[], []];
  const terminal = columns === undefined ? {} : { isTTY: true, columns };
  const cli = createCli({
    env,
    nodeVersion,
    stdin: Readable.from(stdin),
    stdout: { ...terminal, write: (text) => stdout.push(text) },
    stderr: { ...terminal, write: (text) => stderr.push(text) },
    readFile: (path) => readFileSync(path, "utf8"),
    serve: serve ?? (() => Promise.reject(new Error("this test starts no server"))),
  });
  const code = await cli.run(argv);
  return { code, stdout: stdout.join(""), stderr: stderr.join("") };
}
