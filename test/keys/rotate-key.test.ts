import { randomBytes } from "node:crypto";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { expect, onTestFinished, test } from "vitest";
import { RotateKeyRequestSchema } from "#gen/keyrun/v1/key_service_pb.ts";
import { createKeyForm } from "#src/keys/key-value.ts";
import { createRotateKey } from "#src/keys/rotate-key.ts";
import { createServiceSecrets } from "#src/keys/service-secrets.ts";
import { evidenceOf } from "#src/keys/verify-key.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { serviceCall } from "../harness/service-call.ts";
import { keyRecordOf, teamRecordOf } from "../harness/store-records.ts";

const folders = tempFolders();

const hourMs = 3_600_000;
const team = teamRecordOf({ id: "demo" });

/** Rotations in a real store. Rotates the key `first`, or the one that is named. */
async function startRotations(facts: { expireInMs?: number } = {}) {
  const { keys: store, close } = await openSqliteStores({ dataDir: folders.create() });
  onTestFinished(close);
  const clock = createManualClock();
  const nowMs = clock.unixMs();
  const expireTimeMs = facts.expireInMs === undefined ? null : nowMs + facts.expireInMs;
  const first = keyRecordOf({ id: "first", teamId: team.id, createTimeMs: nowMs, expireTimeMs });
  await store.insert(first, { activeMax: 9 });
  const secrets = createServiceSecrets([randomBytes(32)]);
  const rotateKey = createRotateKey({
    ...{ clock, store, secrets, randomBytes, form: createKeyForm("svc", secrets) },
    teams: { peek: () => team, load: async () => team },
    changeSecurityState: (_, write) => write(),
    publish: () => {},
    expiring: async () => {},
    withLastUse: (key) => key,
    expireKeys: async () => {},
    onRevoked: () => {},
  });
  async function rotate(asked: MessageInitShape<typeof RotateKeyRequestSchema>, keyId = "first") {
    const request = create(RotateKeyRequestSchema, { teamId: team.id, keyId, ...asked });
    const { key } = await rotateKey(request, serviceCall());
    return (await store.find(key?.id ?? ""))!;
  }
  return { clock, nowMs, store, rotate };
}

test("an overlap ends when it was asked to, and never after the key's own expiry", async () => {
  const short = await startRotations({ expireInMs: 5 * hourMs });
  await short.rotate({ overlap: durationFromMs(2 * hourMs) });
  expect((await short.store.find("first"))?.expireTimeMs).toBe(short.nowMs + 2 * hourMs);
  const past = await startRotations({ expireInMs: hourMs });
  await past.rotate({ overlap: durationFromMs(2 * hourMs) });
  expect((await past.store.find("first"))?.expireTimeMs).toBe(past.nowMs + hourMs);
  const endless = await startRotations();
  await endless.rotate({ overlap: durationFromMs(2 * hourMs) });
  expect((await endless.store.find("first"))?.expireTimeMs).toBe(endless.nowMs + 2 * hourMs);
});

test("a key stays the first one through all rotations, so that its limit and its place are counted once", async () => {
  const { store, rotate } = await startRotations();
  const second = await rotate({});
  expect([second.firstKeyId, second.replacesKeyId]).toEqual(["first", "first"]);
  const third = await rotate({}, second.id);
  expect([third.firstKeyId, third.replacesKeyId]).toEqual(["first", second.id]);
  expect([evidenceOf(third).firstKeyId, evidenceOf((await store.find("first"))!).firstKeyId]).toEqual([
    "first",
    "first",
  ]);
  expect(await store.countActive(team.id)).toBe(1);
});

test("the new key may do what the old one may: the same apps, as many requests a minute", async () => {
  const { store, rotate } = await startRotations();
  const restrictions = { appIds: ["echo"], requestsPerMinute: 5 };
  await store.insert(keyRecordOf({ id: "narrow", teamId: team.id, ...restrictions }), { activeMax: 9 });
  expect(await rotate({}, "narrow")).toMatchObject(restrictions);
});

test("the new key lives as long as the old one was made for, counted anew", async () => {
  const { clock, nowMs, rotate } = await startRotations({ expireInMs: 5 * hourMs });
  clock.advance(3 * hourMs);
  expect((await rotate({})).expireTimeMs).toBe(nowMs + 8 * hourMs);
});

test("another team's key, a key that is pending and an unknown one are not rotated, in the same words", async () => {
  const { store, rotate } = await startRotations();
  const facts = { teamId: team.id, pendingSinceMs: 1 };
  for (const key of [
    { id: "theirs", teamId: "acme" },
    { id: "pending", ...facts },
  ]) {
    await store.insert(keyRecordOf(key), { activeMax: 9 });
  }
  for (const keyId of ["theirs", "pending", "nobody's"]) {
    await expect(rotate({}, keyId)).rejects.toMatchObject({ reason: "KEY_NOT_FOUND", param: "key_id" });
  }
  expect(await store.find("theirs")).toMatchObject({ replacedByKeyId: null, revokeTimeMs: null });
});
