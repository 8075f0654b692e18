import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Stores } from "#src/store/stores.ts";

const writer = fileURLToPath(new URL("store-writer.ts", import.meta.url));

/** The writes that a writer reported as acknowledged, over all its processes. */
export interface Acknowledged {
  readonly created: Set<string>;
  readonly revoked: Set<string>;
  readonly used: Set<string>;
  appVersion: number;
}

export function nothingAcknowledged(): Acknowledged {
  return { created: new Set(), revoked: new Set(), used: new Set(), appVersion: 0 };
}

/**
 * Runs a process that writes to the store until it has reported `lines` writes, and collects its
 * reports up to its end. Ends it by SIGKILL, or by `kill`, which kills its server instead.
 */
export async function writeUntilKilled(
  acknowledged: Acknowledged,
  {
    place,
    firstNumber,
    lines,
    kill,
  }: { place: string; firstNumber: number; lines: number; kill?: () => unknown },
): Promise<void> {
  // A writer without its server waits for it so long. A server that lives may be slow.
  const callMsMax = kill ? 3_000 : 20_000;
  const child = spawn(process.execPath, [writer, place, String(firstNumber), String(callMsMax)], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const problems: string[] = [];
  child.stderr.setEncoding("utf8").on("data", (text: string) => problems.push(text));
  let reported = 0;
  for await (const line of createInterface({ input: child.stdout })) {
    note(acknowledged, line);
    reported += 1;
    if (reported === lines) kill ? kill() : child.kill("SIGKILL");
  }
  if (reported < lines) throw new Error(`The writer ended by itself: ${problems.join("")}`);
}

/** The acknowledged writes that the store has lost; empty if there are none. */
export async function lostWrites({ keys, apps }: Stores, acknowledged: Acknowledged): Promise<string[]> {
  const lost: string[] = [];
  for (const id of acknowledged.created) {
    const key = await keys.find(id);
    if (!key) lost.push(`created ${id}`);
    if (acknowledged.revoked.has(id) && key?.revokeTimeMs == null) lost.push(`revoked ${id}`);
    if (acknowledged.used.has(id) && key?.lastUseTimeMs == null) lost.push(`used ${id}`);
  }
  // The version of a deleted app shows only in the app that is created next with its id.
  const app = (await apps.find("app")) ?? (await apps.insert({ ...deletedApp }));
  if ((app?.version ?? 0) < acknowledged.appVersion) lost.push(`app ${acknowledged.appVersion}`);
  return lost;
}

const deletedApp = {
  id: "app",
  displayName: "",
  backend: { kind: "echo" },
  timeoutMs: 1,
  streamTimeoutMs: 1,
  backgroundTimeoutMs: 1,
  teamIds: [],
  createTimeMs: 0,
} as const;

function note(acknowledged: Acknowledged, line: string): void {
  const [what, id = ""] = line.split(" ");
  if (what === "created") acknowledged.created.add(id);
  if (what === "revoked") acknowledged.revoked.add(id);
  if (what === "used") acknowledged.used.add(id);
  if (what === "app") acknowledged.appVersion = Number(id);
}
