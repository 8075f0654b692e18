import type { KeyRecord, RotateKeyOrder } from "#src/keys/key-store.ts";
import { createLedger } from "#src/quota/ledger.ts";
import type { ServiceTokenRecord } from "#src/service-tokens/service-token-store.ts";
import type { Stores } from "#src/store/stores.ts";
import { createManualClock } from "./manual-clock.ts";
import {
  auditEventOf,
  keyRecordOf,
  newAppOf,
  runEndOf,
  runRecordOf,
  serviceTokenRecordOf,
} from "./store-records.ts";

const teamIds = ["acme", "beta", "gone"];
const emails = ["ada@example.com", "bob@example.com", "eve@example.com"];
const appIds = ["echo", "words", "removed"];

/**
 * Writes records of every kind: deleted and changed ones, and as many keys and kept answers as
 * asked. The team acme has all of its active keys.
 */
export async function writeEveryKind(
  stores: Stores,
  parts: { readonly keys: number; readonly runs: number; readonly secretVersion?: string },
): Promise<void> {
  const { keys, runs, secretVersion = "0a1b2c3d" } = parts;
  for (const id of teamIds) {
    await stores.teams.insert({ id, displayName: `The ${id}`, plan: "pro", createTimeMs: 1_700_000_000_000 });
  }
  await stores.teams.update("beta", { plan: "team" });
  const ending = await stores.teams.update("gone", { state: "ending" });
  await stores.teams.delete("gone", ending?.version ?? 0);
  for (const [index, email] of emails.entries()) {
    await stores.members.add({
      teamId: teamIds[index % 2] ?? "",
      email,
      createTimeMs: 1_700_000_000_000 + index,
    });
    await stores.users.bind({ email, issuer: "https://login.example.com", subject: `subject ${index}` });
  }
  await stores.preview.set("ada@example.com", true);
  const headers = [{ name: "x-token", value: "a credential" }];
  const template = {
    request: '{"a":"$text"}',
    textAt: "/a",
    outputAt: "/o",
    streamTextAt: "",
    streamEvent: "b=c",
  };
  for (const id of appIds) {
    await stores.apps.insert(
      newAppOf({ id, backend: { kind: "http", url: "http://127.0.0.1:1/", headers, template } }),
    );
  }
  const guarded = { teamIds: ["acme", "beta"], backend: { kind: "guard" }, streamTimeoutMs: 5_000 } as const;
  await stores.apps.update("words", guarded);
  await stores.apps.delete("removed");
  await writeKeys(stores, { count: keys, secretVersion });
  await writeFamilies(stores, secretVersion);
  await writeServiceTokens(stores, secretVersion);
  await writeRuns(stores, runs);
  await writeUsage(stores);
  await writeQuotas(stores);
  await stores.audit.write([
    ...teamIds.map((teamId) => auditEventOf({ id: `event of ${teamId}`, teamId })),
    ...(["done", "unknown"] as const).map((outcome) =>
      auditEventOf({ id: outcome, teamId: "beta", action: "key.rotate", target: families.old, outcome }),
    ),
  ]);
}

/**
 * Keys of the team beta, each of these with an end of its own. A copy meets the successor of the
 * first pair before its predecessor.
 */
export const families = {
  old: "family-old",
  successor: "family-new",
  oldEndMs: 9_000_000_000_000,
  chain: ["chain-1", "chain-2", "chain-3"],
  expired: "expired-1",
} as const;

/** A pair with an overlap, a key that was replaced twice without one, and one that has expired. */
async function writeFamilies({ keys }: Stores, secretVersion: string): Promise<void> {
  const roomy = { activeMax: 1_000_000 };
  const record = (id: string, facts: Partial<KeyRecord> = {}) =>
    keyRecordOf({ id, teamId: "beta", secretVersion, createTimeMs: 1_700_000_500_000, ...facts });
  const rotate = async (keyId: string, successor: KeyRecord, end: RotateKeyOrder["end"]) => {
    const { version = 0 } = (await keys.find(keyId)) ?? {};
    const outcome = await keys.rotate({ teamId: "beta", keyId, version, successor, end });
    if (outcome.kind !== "rotated") throw new Error(`${keyId}: ${outcome.kind}`);
  };
  const expired = record(families.expired, { expireTimeMs: 1_700_000_600_000 });
  await keys.insert(expired, roomy);
  await keys.markExpired({ nowMs: 1_700_000_700_000, limit: 9, teamId: "beta" });
  const { old, successor, oldEndMs } = families;
  const quota = { requests: 1_000, period: "month" } as const;
  const restrictions = { appIds: ["words"], requestsPerMinute: 7, label: "paired", quota };
  await keys.insert(record(old, { ...restrictions, expireTimeMs: oldEndMs + 5 }), roomy);
  const chainOf = (id: string) => ({ replacesKeyId: id, version: 2 });
  const expiring = { kind: "expire", expireTimeMs: oldEndMs } as const;
  const next = { ...restrictions, ...chainOf(old), firstKeyId: old, expireTimeMs: oldEndMs + 9 };
  await rotate(old, record(successor, { ...next, requestId: "a rotation" }), expiring);
  const [first, second, third] = families.chain;
  const revoke = { kind: "revoke", revokeTimeMs: 1_700_000_800_000, revokedBy: "billing" } as const;
  await keys.insert(record(first), roomy);
  await rotate(first, record(second, { ...chainOf(first), firstKeyId: first }), revoke);
  await rotate(second, record(third, { ...chainOf(second), firstKeyId: first }), revoke);
  await keys.recordUses(new Map([old, successor].map((id, n) => [id, 1_700_000_910_000 + n])));
}

const usageDayMs = 19_700 * 86_400_000;

/** Two hours of one day, of two processes, and the day. */
async function writeUsage({ usage }: Stores): Promise<void> {
  const counts = { acceptedCount: 5, limitedCount: 0, failedCount: 2, appMs: 1_234 };
  const place = { teamId: "acme", keyId: "key000000", startTimeMs: usageDayMs + 3_600_000 };
  const hours = [
    { ...place, ...counts },
    { ...place, ...counts, startTimeMs: usageDayMs + 7_200_000, acceptedCount: 1 },
    { ...place, ...counts, teamId: "beta", keyId: families.old },
    { ...place, ...counts, teamId: "beta", keyId: families.successor },
  ];
  await usage.add({ incarnation: "one", number: 1, hours });
  await usage.add({ incarnation: "two", number: 1, hours: [{ ...place, ...counts, limitedCount: 9 }] });
}

const monthly = { limit: { requests: 1_000, period: "month" }, requestsPerMinute: 600 } as const;
const quotaSubjects = [
  { id: "acme", teamId: "acme", ...monthly },
  { id: `beta/${families.old}`, teamId: "beta", ...monthly, limit: { requests: 5, period: "day" } },
] as const;
/** The month and the day of the clock below. */
const quotaIds = ["acme/2023-11", `beta/${families.old}/2023-11-14`];

/** An instance that is gone has used some requests, and holds others. */
async function writeQuotas({ quotas: store }: Stores): Promise<void> {
  const clock = createManualClock();
  const { quotas } = createLedger({
    clock,
    store,
    owner: () => "gone",
    isLive: () => false,
    onFailed: () => {},
  });
  const [team, key] = quotaSubjects;
  await quotas.grant(team, { requests: 7, requestId: "a grant" });
  for (const subject of [team, key]) {
    await quotas.reserve([subject], 1);
    quotas.reserve([subject], 1);
  }
}

/** Half of them are revoked, some were made with a request id, and some are restricted. */
async function writeKeys(
  { keys }: Stores,
  { count, secretVersion }: { readonly count: number; readonly secretVersion: string },
): Promise<void> {
  for (let n = 0; n < count; n += 1) {
    const [id, teamId] = [`key${String(n).padStart(6, "0")}`, teamIds[n % 2] ?? ""];
    const requestId = n % 3 === 0 ? `request ${n}` : null;
    const label = n % 5 === 0 ? "" : `Straße ${n}`;
    const createTimeMs = 1_700_000_000_000 + n;
    const restrictions = n % 7 === 0 ? { appIds: ["words", "echo"], requestsPerMinute: 1 + (n % 60) } : {};
    const facts = { label, requestId, createTimeMs, secretVersion, ...restrictions };
    await keys.insert(keyRecordOf({ id, teamId, ...facts }), { activeMax: count });
    if (n % 4 < 2) {
      await keys.revoke({ teamId, keyId: id, revokeTimeMs: createTimeMs + 5, revokedBy: "ada@example.com" });
    }
  }
  await keys.recordUses(new Map([["key000002", 1_700_000_900_000]]));
}

/** One is revoked, whose name another one has. */
async function writeServiceTokens({ serviceTokens }: Stores, secretVersion: string): Promise<void> {
  const insert = (id: string, facts: Partial<ServiceTokenRecord>) =>
    serviceTokens.insert(serviceTokenRecordOf({ id, secretVersion, ...facts }), { acceptedMax: 100 });
  await insert("t1", { name: "billing", role: "manage", teamIds: ["acme", "beta"] });
  await insert("t2", { name: "gateway" });
  await serviceTokens.revoke({ tokenId: "t2", revokeTimeMs: 1_700_000_000_005, revokedBy: "billing" });
  await insert("t3", { name: "gateway", role: "admin" });
  await serviceTokens.recordUses(new Map([["t1", 1_700_000_900_000]]));
}

async function writeRuns({ runs }: Stores, count: number): Promise<void> {
  for (let n = 0; n < count; n += 1) {
    const record = runRecordOf({
      ...{ id: `run_${n}`, keyHash: `hash ${n}`, fingerprint: `print ${n}`, listed: n % 2 === 0 },
      ...{ teamId: teamIds[n % 2] ?? "", createTimeMs: 1_700_000_000_000 + n },
    });
    await runs.write([{ kind: "insert", id: record.id, record }]);
    if (n % 3 === 0) continue;
    const error = { code: "app_failed", message: `It failed ${n}.`, status: 502 };
    const end = n % 3 === 1 ? runEndOf(`a NUL \0 and 🙂 ${n}`) : runEndOf(null, { state: "failed", error });
    await runs.write([{ kind: "end", id: record.id, end }]);
  }
}

const dayMs = 86_400_000;
const usageOf = (teamId: string) => ({ teamId, fromMs: usageDayMs - dayMs, untilMs: usageDayMs + 2 * dayMs });
const byTime = <Sum extends { readonly startTimeMs: number }>(sums: readonly Sum[]) =>
  sums.toSorted((a, b) => a.startTimeMs - b.startTimeMs);

/** Everything that the ports say of those records. */
export async function everyKind(
  { teams, members, preview, users, apps, keys, serviceTokens, runs: kept, usage, quotas, audit }: Stores,
  { runs }: { readonly runs: number },
) {
  const listed = teamIds.map(async (teamId) => ({
    team: await teams.find(teamId),
    deleted: await teams.deletedVersion(teamId),
    members: await members.list({ teamId, limit: 100 }),
    keys: await keys.list({ teamId, limit: 100_000, includeRevoked: true }),
    byLabel: await keys.list({
      teamId,
      limit: 100_000,
      includeRevoked: false,
      match: { labelPart: "strasse 1" },
    }),
    active: await keys.countActive(teamId),
    totals: await kept.totals(teamId),
  }));
  const ofUsers = emails.map(async (email) => ({
    teams: await members.teamIdsOf(email, 10),
    preview: await preview.has(email),
    user: await users.find(email),
  }));
  const ofRuns = Array.from({ length: runs }, async (_, n) => ({
    record: await kept.find(`run_${n}`),
    text: await kept.textOf(`run_${n}`),
  }));
  return {
    teams: await Promise.all(listed),
    users: await Promise.all(ofUsers),
    runs: await Promise.all(ofRuns),
    apps: await apps.list({ limit: 100 }),
    deletedApps: await Promise.all(appIds.map((id) => apps.deletedVersion(id))),
    events: await audit.list({ limit: 100 }),
    serviceTokens: await serviceTokens.list({ limit: 100, includeRevoked: true }),
    secretVersions: [await keys.secretVersions(), await serviceTokens.secretVersions()],
    hours: byTime(await usage.hours(usageOf("acme"))),
    days: await usage.days(usageOf("acme")),
    quotas: await Promise.all(quotaIds.map((id) => quotas.find(id))),
    ofPair: await Promise.all(
      [families.old, families.successor].map(async (keyId) => ({
        hours: await usage.hours({ ...usageOf("beta"), keyId }),
        days: await usage.days({ ...usageOf("beta"), keyId }),
      })),
    ),
  };
}
