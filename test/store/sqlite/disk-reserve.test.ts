import { readdirSync, readFileSync, rmSync, statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { whileChanging } from "#src/audit/pending-change.ts";
import { bounds } from "#src/bounds.ts";
import { createAppStore } from "#src/store/sqlite/app-store.ts";
import { createAuditStore } from "#src/store/sqlite/audit-store.ts";
import { createKeyStore } from "#src/store/sqlite/key-store.ts";
import { openDatabase } from "#src/store/sqlite/locked-database.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { createSchema } from "#src/store/sqlite/schema.ts";
import { createServiceTokenStore } from "#src/store/sqlite/service-token-store.ts";
import { createSessionStore, createUserStore } from "#src/store/sqlite/session-store.ts";
import { setReserve } from "#src/store/sqlite/statement.ts";
import { createMemberStore, createPreviewStore, createTeamStore } from "#src/store/sqlite/team-store.ts";
import { tempFolders } from "../../harness/closed-at-end.ts";
import {
  auditEventOf,
  keyRecordOf,
  newAppOf,
  serviceTokenRecordOf,
  teamRecordOf,
} from "../../harness/store-records.ts";

const folders = tempFolders();

const [teamId, email, now] = ["demo", "ada@example.com", 1_700_000_000_000];
const session = {
  ...{ idHash: "s", issuer: "https://id.example", subject: "ada", email },
  ...{ createTimeMs: now, lastActiveTimeMs: now, expireTimeMs: now + 1 },
};

function openAll(dataDir: string) {
  const db = openDatabase(join(dataDir, "keyrun.db"));
  createSchema(db);
  onTestFinished(() => db.close());
  return {
    db,
    keys: createKeyStore(db),
    teams: createTeamStore(db),
    apps: createAppStore(db),
    members: createMemberStore(db),
    preview: createPreviewStore(db),
    users: createUserStore(db),
    sessions: createSessionStore(db),
    serviceTokens: createServiceTokenStore(db),
    audit: createAuditStore(db),
  };
}

type All = ReturnType<typeof openAll>;

/** One record of each kind, and a second key. */
async function fill(stores: All): Promise<void> {
  await stores.teams.insert(teamRecordOf({ id: teamId }));
  for (const id of ["k", "l"]) await stores.keys.insert(keyRecordOf({ id, teamId }), { activeMax: 10 });
  await stores.apps.insert(newAppOf({ id: "echo" }));
  await stores.members.add({ teamId, email, createTimeMs: now });
  await stores.preview.set(email, true);
  await stores.users.bind({ email, issuer: "https://id.example", subject: "ada" });
  await stores.sessions.insert(session, { perUserMax: 10 });
  await stores.serviceTokens.insert(serviceTokenRecordOf({ id: "t", name: "bot", teamIds: [teamId] }), {
    acceptedMax: 10,
  });
}

/** Every change that the reserve is for. Each takes a right away, and nobody can repeat it. */
const revocations: Record<string, (stores: All) => Promise<unknown>> = {
  "keys.revoke": ({ keys }) => keys.revoke({ teamId, keyId: "k", revokeTimeMs: now, revokedBy: "x" }),
  "keys.delete": ({ keys }) => keys.delete("k"),
  "keys.deleteAll": ({ keys }) => keys.deleteAll(teamId, 10),
  "serviceTokens.revoke": ({ serviceTokens }) =>
    serviceTokens.revoke({ tokenId: "t", revokeTimeMs: now, revokedBy: "x" }),
  "serviceTokens.delete": ({ serviceTokens }) => serviceTokens.delete("t"),
  "serviceTokens.leaveTeam": ({ serviceTokens }) => serviceTokens.leaveTeam(teamId),
  "teams.update: the mark of a deletion": ({ teams }) => teams.update(teamId, { state: "ending" }),
  "teams.delete": async ({ teams }) => {
    const marked = await teams.update(teamId, { state: "ending" });
    return teams.delete(teamId, marked?.version ?? 0);
  },
  "apps.delete": ({ apps }) => apps.delete("echo"),
  "members.remove": ({ members }) => members.remove(teamId, email),
  "members.removeAll": ({ members }) => members.removeAll(teamId, 10),
  "preview.set: withdrawn": ({ preview }) => preview.set(email, false),
  "users.release": ({ users }) => users.release(email),
  "sessions.delete": ({ sessions }) => sessions.delete("s"),
};

/** The others: they give a right, may be repeated without end, or are Keyrun's own notes. */
const others: Record<string, (stores: All) => Promise<unknown>> = {
  "keys.insert": ({ keys }) => keys.insert(keyRecordOf({ id: "m", teamId }), { activeMax: 10 }),
  "keys.update": ({ keys }) => keys.update({ teamId, keyId: "k", version: 1, change: { label: "x" } }),
  "keys.rotate": ({ keys }) =>
    keys.rotate({
      ...{ teamId, keyId: "k", version: 1 },
      successor: keyRecordOf({ id: "m", teamId, firstKeyId: "k" }),
      end: { kind: "revoke", revokeTimeMs: now, revokedBy: "x" },
    }),
  "keys.recordUses": ({ keys }) => keys.recordUses(new Map([["k", now]])),
  "serviceTokens.insert": ({ serviceTokens }) =>
    serviceTokens.insert(serviceTokenRecordOf({ id: "u", name: "other", teamIds: [] }), { acceptedMax: 10 }),
  "teams.insert": ({ teams }) => teams.insert(teamRecordOf({ id: "other" })),
  "teams.update": ({ teams }) => teams.update(teamId, { plan: "pro" }),
  "apps.insert": ({ apps }) => apps.insert(newAppOf({ id: "other" })),
  "apps.update": ({ apps }) => apps.update("echo", { teamIds: [teamId] }),
  "members.add": ({ members }) => members.add({ teamId, email: "b@example.com", createTimeMs: now }),
  "preview.set: granted": ({ preview }) => preview.set("b@example.com", true),
  "users.bind": ({ users }) =>
    users.bind({ email: "b@example.com", issuer: "https://id.example", subject: "b" }),
  "sessions.insert": ({ sessions }) => sessions.insert({ ...session, idHash: "r" }, { perUserMax: 10 }),
  "sessions.touch": ({ sessions }) => sessions.touch("s", now + 1),
  "sessions.deleteExpired": ({ sessions }) =>
    sessions.deleteExpired({ nowMs: now + 1, idleSinceMs: now, limit: 10 }),
  "audit.write": ({ audit }) => audit.write([auditEventOf({ id: "e" })]),
};

describe("while the reserve is given up,", () => {
  const givenUp = async () => {
    const stores = openAll(folders.create());
    await fill(stores);
    setReserve(stores.db, { isGivenUp: () => true, giveUp: () => false });
    const changes = stores.db.prepare("SELECT total_changes() AS n");
    return { stores, changed: () => Number(changes.get()?.n) };
  };

  test.each(Object.entries(revocations))("%s is written", async (_, revoke) => {
    const { stores, changed } = await givenUp();
    const before = changed();
    await revoke(stores);
    expect(changed()).toBeGreaterThan(before);
  });

  test.each(Object.entries(others))("%s is refused", async (_, change) => {
    const { stores } = await givenUp();
    await expect(change(stores)).rejects.toMatchObject({ reason: "STORE_FULL" });
  });

  test("what changes nothing is done", async () => {
    const { stores } = await givenUp();
    await stores.preview.set(email, true);
    await stores.sessions.deleteExpired({ nowMs: 0, idleSinceMs: 0, limit: 10 });
  });
});

test("no other write uses the reserve", () => {
  const folder = "src/store/sqlite";
  const texts = readdirSync(folder).map((name) => readFileSync(join(folder, name), "utf8"));
  const uses = texts.flatMap((text) => [...text.matchAll(/writeRevocation\(db/g)]);
  expect(uses.length).toBe(Object.keys(revocations).length);
});

test("a revocation gets as many pieces as it needs, and is written once, with one event", async () => {
  const stores = openAll(folders.create());
  await fill(stores);
  const { db, keys, audit } = stores;
  const pages = () => Number(db.prepare("PRAGMA page_count").get()?.page_count);
  for (let n = 0; n < 200; n++) await keys.insert(keyRecordOf({ id: `a${n}`, teamId }), { activeMax: 1_000 });
  db.exec(`PRAGMA max_page_count = ${pages()}`);
  let pieces = 0;
  setReserve(db, {
    isGivenUp: () => pieces > 0,
    giveUp: () => {
      pieces++;
      // The first two pieces are too little.
      if (pieces === 3) db.exec(`PRAGMA max_page_count = ${pages() + 100}`);
      return true;
    },
  });
  const detail = "x".repeat(20_000);
  const event = auditEventOf({ id: "e", detail });
  let written = 0;
  await whileChanging({ isDue: true, record: () => event, written: () => void written++ }, () =>
    keys.revoke({ teamId, keyId: "k", revokeTimeMs: now, revokedBy: "x" }),
  );
  expect({ pieces, written }).toEqual({ pieces: 3, written: 1 });
  expect(await audit.list({ limit: 10 })).toEqual([event]);
  expect((await keys.find("k"))?.version).toBe(2);
});

test("a revocation that finds no reserve is refused as any change", async () => {
  const stores = openAll(folders.create());
  await fill(stores);
  stores.db.exec("PRAGMA max_page_count = 1");
  let asked = 0;
  setReserve(stores.db, { isGivenUp: () => false, giveUp: () => ++asked < 3 });
  const event = auditEventOf({ id: "e", detail: "x".repeat(20_000) });
  const revoked = whileChanging({ isDue: true, record: () => event, written() {} }, () =>
    stores.keys.revoke({ teamId, keyId: "k", revokeTimeMs: now, revokedBy: "x" }),
  );
  await expect(revoked).rejects.toMatchObject({ reason: "STORE_FULL" });
  expect(asked).toBe(3);
  expect((await stores.keys.find("k"))?.revokeTimeMs).toBeNull();
});

describe("the file of the reserve", () => {
  const open = async (dataDir: string) => {
    const states: string[] = [];
    const stores = await openSqliteStores({ dataDir, onReserve: (state) => void states.push(state) });
    onTestFinished(stores.close);
    return { stores, states };
  };
  const blocksOf = (path: string) => statSync(path).blocks * 512;

  test("is made at the first start, of blocks that are there", async () => {
    const dataDir = folders.create();
    const { states } = await open(dataDir);
    const path = join(dataDir, "keyrun.reserve");
    expect(statSync(path).size).toBe(bounds.storeReserveBytes);
    expect(blocksOf(path)).toBeGreaterThanOrEqual(bounds.storeReserveBytes);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(states).toEqual([]);
  });

  test.each([0, 4_096, bounds.storeReserveBytes - 1])("of %i bytes is filled up at a start", async (size) => {
    const dataDir = folders.create();
    const first = await open(dataDir);
    await first.stores.close();
    const path = join(dataDir, "keyrun.reserve");
    truncateSync(path, size);
    const { states } = await open(dataDir);
    expect(blocksOf(path)).toBeGreaterThanOrEqual(bounds.storeReserveBytes);
    expect(states).toEqual([]);
  });

  test("that somebody removed is made again by the next start", async () => {
    const dataDir = folders.create();
    const first = await open(dataDir);
    const path = join(dataDir, "keyrun.reserve");
    rmSync(path);
    await first.stores.close();
    await open(dataDir);
    expect(statSync(path).size).toBe(bounds.storeReserveBytes);
  });
});
