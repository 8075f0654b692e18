import { expect } from "vitest";
import { manage, readMetric } from "./keyrun.ts";
import { restRun, serveKeyrun } from "./keyrun-process.ts";
import { type ResidentMemory, residentMemory } from "./resident-memory.ts";
import { createTempFolders } from "./temp-folders.ts";

/** A real process that is attacked, and what shows that it holds. */
export interface AttackedKeyrun {
  /** The port of the public listener. */
  readonly port: number;
  /** A key that works: an attack that is taken for a good request runs the app. */
  readonly key: string;
  /**
   * Runs the app for another team, on a connection of its own. Rejects if that does not work. It
   * comes from the address of the attacker, so it asks again where the load of the two is shed.
   */
  expectServing(): Promise<void>;
  /** The runs of the app that no healthy caller has asked for. */
  runsByAttacks(): Promise<number>;
  memory(): ResidentMemory;
  /** The value of a series in `/metrics`. */
  metric(series: string): Promise<number>;
  close(): Promise<void>;
}

export async function attackedKeyrun(): Promise<AttackedKeyrun> {
  const folders = createTempFolders();
  const keyrun = await serveKeyrun(folders.create(), { KEYRUN_PLAN_LIMITS: "free=100000" });
  const management = manage(keyrun.internalUrl, keyrun.serviceToken());
  const newKey = async () => (await management.newKey(await management.newTeam())).value;
  const [key, healthyKey] = [await newKey(), await newKey()];
  let healthyRuns = 0;
  return {
    port: Number(new URL(keyrun.publicUrl).port),
    key,
    async expectServing() {
      const { status, body } = await restRun(keyrun.publicUrl, { value: healthyKey, text: "served" });
      expect([status, JSON.parse(body).text]).toEqual([200, "served"]);
      healthyRuns += 1;
    },
    async runsByAttacks() {
      const headers = { authorization: `Bearer ${keyrun.serviceToken()}` };
      const metrics = await (await fetch(`${keyrun.internalUrl}/metrics`, { headers })).text();
      const counts = [...metrics.matchAll(/^keyrun_run_seconds_count(?:\{.*\})? (\d+)/gm)];
      expect(counts.length).toBeGreaterThan(0);
      return counts.reduce((sum, [, count]) => sum + Number(count), 0) - healthyRuns;
    },
    memory: () => residentMemory(keyrun.pid),
    metric: (series) => readMetric(keyrun.internalUrl, keyrun.serviceToken(), series),
    async close() {
      management.disconnect();
      keyrun.kill("SIGKILL");
      await keyrun.exited;
      folders.remove();
    },
  };
}
