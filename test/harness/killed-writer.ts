import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Stores } from "#src/store/stores.ts";

const writer = fileURLToPath(new URL("store-writer.ts", import.meta.url));

/** What a writer told as acknowledged, over all its lives. */
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
 * Lets a process write to the store until it told `lines` lines, and notes all it told until its end. It ends by
 * SIGKILL, or by an error where `kill` is given and kills its server instead.
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
  const child = spawn(process.execPath, [writer, place, String(firstNumber)], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const problems: string[] = [];
  child.stderr.setEncoding("utf8").on("data", (text: string) => problems.push(text));
  let told = 0;
  for await (const line of createInterface({ input: child.stdout })) {
    note(acknowledged, line);
    told += 1;
    if (told === lines) kill ? kill() : child.kill("SIGKILL");
  }
  if (told < lines) throw new Error(`The writer ended by itself: ${problems.join("")}`);
}

/** The acknowledged writes that the store does not have; empty where nothing was lost or revived. */
export async function lostWrites({ keys, apps }: Stores, acknowledged: Acknowledged): Promise<string[]> {
  const lost: string[] = [];
  for (const id of acknowledged.created) {
    const key = await keys.find(id);
    if (!key) lost.push(`created ${id}`);
    if (acknowledged.revoked.has(id) && key?.revokeTimeMs == null) lost.push(`revoked ${id}`);
    if (acknowledged.used.has(id) && key?.lastUseTimeMs == null) lost.push(`used ${id}`);
  }
  // A deleted app shows its version only in the next one, which is made over it.
  const app = (await apps.find("app")) ?? (await apps.insert({ ...deletedApp }));
  if ((app?.version ?? 0) < acknowledged.appVersion) lost.push(`app ${acknowledged.appVersion}`);
  return lost;
}

const deletedApp = {
  id: "app",
  displayName: "",
  backend: { kind: "echo" },
  timeoutMs: 1,
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
