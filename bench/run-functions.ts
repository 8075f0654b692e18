// How many functions and files of `src/` a run of an app behind HTTP passes, once everything is
// warm and the connections on both sides are kept: `node bench/run-functions.ts [--list]`. With
// `--list` it also prints each function. Several runs are measured, one at a time, and what all of
// them passed is counted: so a timer that was due meanwhile is not.
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { Agent, createServer, request } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { startKeyrun } from "./start-keyrun.ts";

export interface RunFunctions {
  /** Each as its file, its line and its name, in order. */
  readonly functions: readonly string[];
  readonly files: readonly string[];
}

export async function measureRunFunctions({ warmRuns = 500, rounds = 5 } = {}): Promise<RunFunctions> {
  const folder = mkdtempSync(join(tmpdir(), "keyrun-bench-functions-"));
  const socketPath = join(folder, "socket");
  const app = await startEchoingApp();
  const keyrun = await startKeyrun({
    KEYRUN_DRAIN_MS_MAX: "0",
    NODE_OPTIONS: `--import=${fileURLToPath(new URL("./passed-functions.ts", import.meta.url))}`,
    PASSED_FUNCTIONS: socketPath,
  });
  const coverage = connect(socketPath);
  const answers = createInterface({ input: coverage })[Symbol.asyncIterator]();
  const passed = async (): Promise<readonly string[]> => {
    // What follows an answer, such as its metrics, is a part of the run.
    await sleep(20);
    coverage.write("?");
    return JSON.parse((await answers.next()).value ?? "[]");
  };
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  try {
    await keyrun.teams.createTeam({ team: { id: "counted" } });
    const { value } = await keyrun.keys.createKey({ teamId: "counted" });
    const kind = { case: "http", value: { url: app.url } } as const;
    await keyrun.apps.createApp({ app: { id: "echoing", backend: { kind } } });
    const run = () => runOnce(agent, keyrun.port, value);
    for (let done = 0; done < warmRuns; done += 1) await run();
    let common: readonly string[] | undefined;
    for (let round = 0; round < rounds; round += 1) {
      await passed();
      await run();
      const functions = new Set(await passed());
      common = common === undefined ? [...functions] : common.filter((each) => functions.has(each));
    }
    const functions = (common ?? []).toSorted(new Intl.Collator("en", { numeric: true }).compare);
    return { functions, files: [...new Set(functions.map((each) => each.slice(0, each.indexOf(":"))))] };
  } finally {
    agent.destroy();
    coverage.destroy();
    app.close();
    await keyrun.stop();
    rmSync(folder, { recursive: true });
  }
}

/** Throws at an answer that is not the text that was sent. */
async function runOnce(agent: Agent, port: number, key: string): Promise<void> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const asked = request({ port, path: "/api/apps/echoing/run", method: "POST", agent, headers });
  asked.end('{"text":"hello"}');
  const [answer] = await once(asked, "response");
  let body = "";
  for await (const chunk of answer.setEncoding("utf8")) body += chunk;
  if (answer.statusCode !== 200 || JSON.parse(body).text !== "hello") {
    throw new Error(`the run was answered with ${answer.statusCode}: ${body}`);
  }
}

async function startEchoingApp() {
  const server = createServer(async (asked, answer) => {
    let body = "";
    for await (const chunk of asked.setEncoding("utf8")) body += chunk;
    answer.writeHead(200, { "Content-Type": "application/json" });
    answer.end(JSON.stringify({ text: JSON.parse(body).text }));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    close: () => server.close().closeAllConnections(),
  };
}

if (import.meta.main) {
  const { functions, files } = await measureRunFunctions();
  if (process.argv.includes("--list")) console.log(functions.join("\n"));
  console.log(`A run passes ${functions.length} functions in ${files.length} files of src/.`);
}
