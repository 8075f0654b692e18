// The question `turns`: the longest turn of the event loop that each request causes. Keyrun runs as
// people start it, on a full store, with a meter in its process (`turn-meter.ts`).
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { startKeyrun } from "./start-keyrun.ts";
import { createTurnCases, type TurnCase } from "./turn-cases.ts";
import type { MeasuredTurns } from "./turn-meter.ts";
import { appAnswers } from "./turn-requests.ts";
import { fillStore } from "./turn-store.ts";

export interface TurnRow {
  readonly group: string;
  readonly name: string;
  /** What the last one was answered with. */
  readonly outcome: string;
  readonly rounds: readonly MeasuredTurns[];
}

/** Sends each request alone, so many times. `only` is a part of a group or name. */
export async function measureTurns(rounds: number, only = ""): Promise<readonly TurnRow[]> {
  const folder = mkdtempSync(join(tmpdir(), "keyrun-bench-turns-"));
  const secret = randomBytes(32);
  const values = await fillStore(join(folder, "data"), secret);
  const meterPath = join(folder, "meter");
  const keyrun = await startKeyrun({
    KEYRUN_DATA_DIR: join(folder, "data"),
    KEYRUN_SECRET: secret.toString("base64url"),
    KEYRUN_SERVICE_TOKEN: randomBytes(32).toString("base64url"),
    KEYRUN_KEYS_PER_TEAM_MAX: "10000",
    KEYRUN_DRAIN_MS_MAX: "0",
    NODE_OPTIONS: `--import=${fileURLToPath(new URL("./turn-meter.ts", import.meta.url))}`,
    TURN_METER: meterPath,
  });
  const app = await startAnsweringApp();
  const meter = connect(meterPath).setEncoding("utf8");
  try {
    const cases = await createTurnCases({ ...keyrun, values, appUrl: app.url });
    // What a start leaves to be done later is no part of it.
    await sleep(5_000);
    const rows: TurnRow[] = [];
    for (const each of cases) {
      if (!`${each.group}: ${each.name}`.includes(only)) continue;
      const row = await measureCase(meter, each, rounds);
      console.log(rowOf(row));
      rows.push(row);
    }
    return rows;
  } finally {
    meter.destroy();
    app.close();
    await keyrun.stop();
    rmSync(folder, { recursive: true });
  }
}

async function measureCase(meter: Socket, each: TurnCase, rounds: number): Promise<TurnRow> {
  const measured: MeasuredTurns[] = [];
  let outcome = "";
  for (let round = 0; round < (each.rounds ?? rounds); round++) {
    const send = await each.prepare();
    await ask(meter, "begin");
    outcome = await send();
    measured.push(JSON.parse(await ask(meter, "end")));
  }
  await each.end?.();
  return { group: each.group, name: each.name, outcome, rounds: measured };
}

async function ask(meter: Socket, word: "begin" | "end"): Promise<string> {
  const answered = once(meter, "data");
  meter.write(word);
  const [answer] = await answered;
  return answer;
}

async function startAnsweringApp() {
  const server = createServer((asked, answer) => {
    asked.resume().once("end", () => {
      const [type, body] = appAnswers.get(asked.url?.slice(1) ?? "") ?? ["text/plain", Buffer.alloc(0)];
      answer.writeHead(200, { "Content-Type": type, "Content-Length": body.length }).end(body);
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => server.close().closeAllConnections(),
  };
}

/** What was measured as a Markdown table. */
export function turnTableOf(rows: readonly TurnRow[]): string {
  return [
    "**The longest turn of the event loop**, in ms of processor time",
    "",
    "| what | answer | longest turn | of these for the garbage collector | the slowest of all rounds | all turns |",
    "| --- | --- | ---: | ---: | ---: | ---: |",
    ...rows.map(rowOf),
  ].join("\n");
}

function rowOf({ group, name, outcome, rounds }: TurnRow): string {
  const sorted = rounds.toSorted((a, b) => a.longestMs - b.longestMs);
  const median = sorted[Math.floor((sorted.length - 1) / 2)]!;
  const worst = sorted.at(-1)!;
  const cells = [
    `${group}: ${name}`,
    outcome,
    ...[median.longestMs, median.collectedMs, worst.longestMs, median.wholeMs].map((ms) => ms.toFixed(1)),
  ];
  return `| ${cells.join(" | ")} |`;
}
