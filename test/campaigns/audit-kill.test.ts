import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import type { AuditCursor, AuditEvent } from "#src/audit/audit-store.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import type { Stores } from "#src/store/stores.ts";
import { campaignSize, figure } from "../harness/campaigns.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { createMongoDatabases } from "../harness/mongo-databases.ts";
import { describeWith, mongodbMissing } from "../harness/needs.ts";
import { openMongoForTest } from "../harness/open-mongo.ts";

const folders = tempFolders();
const databases = createMongoDatabases();
afterAll(async () => {
  await databases.drop();
});

const kills = campaignSize("audit-kills");
const writers = 4;
const writer = fileURLToPath(new URL("./audited-writer.ts", import.meta.url));

// Each kill needs a process of its own, which a busy machine starts in many seconds.
const timeout = { timeout: 60_000 + kills * 60_000 };

describeWith(mongodbMissing)("on MongoDB", () => {
  test(`kill -9 leaves no change without its event, ${kills} times over`, timeout, async () => {
    const uri = databases.createUri();
    await killAndCheck(uri, () => openMongoForTest({ uri, fleet: true }));
  });
});

describe("on the embedded store", () => {
  test(`kill -9 leaves no change without its event, ${kills} times over`, timeout, async () => {
    const dataDir = folders.create();
    await killAndCheck(dataDir, () => openSqliteStores({ dataDir }));
  });
});

async function killAndCheck(place: string, open: () => Promise<Stores>): Promise<void> {
  const acknowledged: string[] = [];
  for (let life = 0; life < kills; life++) acknowledged.push(...(await live(place, life)));
  const stores = await open();
  try {
    const found = { changes: 0, events: 0, unknown: 0, wrong: [] as string[] };
    for (let writer = 0; writer < writers; writer++) await check(stores, `team-${writer}`, found);
    const { changes, events, unknown, wrong } = found;
    const names = place.startsWith("mongodb:") ? "MongoDB: " : "embedded store: ";
    figure(`${names}changes in the store`, changes);
    figure(`${names}changes acknowledged`, acknowledged.length);
    figure(`${names}events`, events);
    figure(`${names}events of an unknown outcome`, unknown);
    figure(`${names}changes without an event`, wrong.length);
    expect(wrong).toEqual([]);
    expect(changes).toBeGreaterThanOrEqual(acknowledged.length);
    expect(acknowledged.length).toBeGreaterThan(5 * kills);
  } finally {
    await stores.close();
  }
}

/** Runs a writer. Kills it after another number of changes and another wait each time. */
async function live(place: string, life: number): Promise<string[]> {
  const child = spawn(process.execPath, [writer, place, String(life)], { stdio: ["ignore", "pipe", "pipe"] });
  const problems: string[] = [];
  child.stderr.setEncoding("utf8").on("data", (text: string) => problems.push(text));
  const lines: string[] = [];
  const linesMax = 10 + ((life * 7) % 23);
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(line);
    // The next changes are under way, at another point each time.
    if (lines.length === linesMax) setTimeout(() => child.kill("SIGKILL"), life % 5);
  }
  if (lines.length < linesMax) throw new Error(`The writer ended by itself: ${problems.join("")}`);
  return lines;
}

async function check(
  stores: Stores,
  teamId: string,
  found: { changes: number; events: number; unknown: number; wrong: string[] },
): Promise<void> {
  const events = await eventsOf(stores, teamId);
  found.events += events.length;
  found.unknown += events.filter(({ outcome }) => outcome === "unknown").length;
  const byChange = Map.groupBy(events, ({ action, target }) => `${action} ${target}`);
  const has = (action: string, target: string) => byChange.get(`${action} ${target}`)?.length === 1;
  const keys = await stores.keys.list({ teamId, limit: 10_000, includeRevoked: true });
  for (const { id, revokeTimeMs } of keys) {
    found.changes += revokeTimeMs === null ? 1 : 2;
    if (!has("key.create", id)) found.wrong.push(`created ${id}`);
    if (revokeTimeMs !== null && !has("key.revoke", id)) found.wrong.push(`revoked ${id}`);
  }
  // The other way round: what the log says was done was done.
  const ids = new Set(keys.map(({ id }) => id));
  for (const { outcome, target } of events) {
    if (outcome === "done" && !ids.has(target)) found.wrong.push(`event of ${target}`);
  }
}

async function eventsOf({ audit }: Stores, teamId: string): Promise<AuditEvent[]> {
  const all: AuditEvent[] = [];
  for (let after: AuditCursor | undefined; ; after = all.at(-1)) {
    const page = await audit.list({ teamId, limit: 500, ...(after && { after }) });
    all.push(...page);
    if (page.length < 500) return all;
  }
}
