import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { freePort } from "../harness/free-port.ts";
import { statusOf } from "../harness/keyrun-process.ts";

/** Debian's Prometheus, which scrapes what its configuration names. */
export interface Prometheus {
  /** The series of an instant query, now. Rejects with its words where the query is wrong. */
  query(promql: string): Promise<readonly Sample[]>;
  /** Its targets, and why the last scrape of each failed; "" where it did not. */
  targets(): Promise<readonly { readonly instance: string; readonly lastError: string }[]>;
  /** The names of the alerts that it has loaded. */
  alerts(): Promise<readonly string[]>;
  close(): Promise<void>;
}

export interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Why there is none here; undefined if `prometheus` and `promtool` are installed. */
export function prometheusMissing(): string | undefined {
  const missing = ["prometheus", "promtool"].filter(
    (program) => spawnSync(program, ["--version"], { stdio: "ignore" }).status !== 0,
  );
  return missing.length > 0 ? `not installed: ${missing.join(", ")}` : undefined;
}

export async function startPrometheus(folder: string, configuration: string): Promise<Prometheus> {
  const file = join(folder, "prometheus.yml");
  writeFileSync(file, configuration);
  const port = await freePort();
  const options = [
    `--config.file=${file}`,
    `--storage.tsdb.path=${join(folder, "tsdb")}`,
    `--web.listen-address=127.0.0.1:${port}`,
  ];
  const child = spawn("prometheus", options, { stdio: ["ignore", "ignore", "pipe"] });
  const killAtExit = () => child.kill("SIGKILL");
  process.once("exit", killAtExit);
  let words = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    words = (words + text).slice(-4_000);
  });
  const url = `http://127.0.0.1:${port}`;
  while ((await statusOf(`${url}/-/ready`)) !== 200) {
    if (child.exitCode !== null) throw new Error(`Prometheus ended: ${words}`);
    await pause(25);
  }
  const read = async (path: string) => {
    const answer = await fetch(`${url}/api/v1/${path}`);
    const { status, error, data } = (await answer.json()) as { status: string; error?: string; data: never };
    if (status !== "success") throw new Error(error);
    return data;
  };
  return {
    async query(promql) {
      const { resultType, result }: { resultType: string; result: Found[] } = await read(
        `query?query=${encodeURIComponent(promql)}`,
      );
      if (resultType !== "vector") throw new Error(`${promql} gives a ${resultType}`);
      return result.map(({ metric, value: [, text] }) => ({ metric, value: Number(text) }));
    },
    async targets() {
      const { activeTargets }: { activeTargets: { labels: { instance: string }; lastError: string }[] } =
        await read("targets");
      return activeTargets.map(({ labels, lastError }) => ({ instance: labels.instance, lastError }));
    },
    async alerts() {
      const { groups }: { groups: { rules: { name: string; lastError?: string }[] }[] } = await read("rules");
      return groups.flatMap(({ rules }) => rules.map(({ name }) => name));
    },
    async close() {
      process.off("exit", killAtExit);
      const gone = once(child, "exit");
      child.kill("SIGTERM");
      await gone;
    },
  };
}

interface Found {
  readonly metric: Record<string, string>;
  readonly value: readonly [number, string];
}
