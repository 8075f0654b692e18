import { randomBytes } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { beforeEach, expect, test } from "vitest";
import { UpdateAppRequestSchema } from "#gen/keyrun/v1/app_service_pb.ts";
import { RotateKeyRequestSchema, UpdateKeyRequestSchema } from "#gen/keyrun/v1/key_service_pb.ts";
import { createAppService } from "#src/apps/app-service.ts";
import type { SecurityKind } from "#src/fleet/control-store.ts";
import { createSecurityState } from "#src/fleet/security-state.ts";
import { createKeyForm } from "#src/keys/key-value.ts";
import { createKeyring, leakReport } from "#src/keys/keyring.ts";
import { createRotateKey } from "#src/keys/rotate-key.ts";
import { createServiceSecrets } from "#src/keys/service-secrets.ts";
import { createUpdateKey } from "#src/keys/update-key.ts";
import { createServiceTokenForm, createServiceTokens } from "#src/service-tokens/service-tokens.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { closedAtEnd, tempFolders } from "../harness/closed-at-end.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { serviceCall } from "../harness/service-call.ts";
import { keyRecordOf, newAppOf, teamRecordOf } from "../harness/store-records.ts";

const folders = tempFolders();
const stores = closedAtEnd(await openSqliteStores({ dataDir: folders.create() }));

/** What the fleet was told: the record, and whether the answer waited until every instance knew. */
const told: { id: string; waits: boolean }[] = [];
const floors = Object.fromEntries(
  ["key", "app", "service-token"].map((kind) => [kind, { raise: () => {} }]),
) as { [Kind in SecurityKind]?: { raise(): void } };
const changeSecurityState = createSecurityState({
  floors: floors as never,
  fleet: {
    async announce(changes, { wait }) {
      for (const { id } of changes) told.push({ id, waits: wait });
    },
  },
}) as never;

const clock = createManualClock();
const team = teamRecordOf({ id: "demo" });
const secrets = createServiceSecrets([randomBytes(32)]);
const parts = {
  ...{ clock, secrets, randomBytes, changeSecurityState, activeMax: 99, store: stores.keys },
  ...{ form: createKeyForm("svc", secrets), teams: { peek: () => team, load: async () => team } },
  ...{ publish: () => {}, onRevoked: () => {}, expiring: async () => {} },
  ...{ withLastUse: <Key>(key: Key) => key, lastUseTimeMs: () => null, expireKeys: async () => {} },
};
const keyring = createKeyring(parts);
const [updateKey, rotateKey] = [createUpdateKey(parts), createRotateKey(parts)];
const apps = createAppService({
  ...parts,
  store: stores.apps,
  cancelRuns: async () => {},
});
const tokens = createServiceTokens({
  ...{ ...parts, store: stores.serviceTokens, form: createServiceTokenForm(secrets) },
  evidence: { peek: () => undefined, load: async () => undefined },
});

let keys = 0;
let keyId = "";
beforeEach(async () => {
  keyId = `key-${++keys}`;
  await stores.keys.insert(keyRecordOf({ id: keyId, teamId: team.id }), { activeMax: 99 });
  told.length = 0;
});

const update = (paths: string[]) =>
  updateKey(
    create(UpdateKeyRequestSchema, {
      ...{ teamId: team.id, keyId, updateMask: { paths }, label: "new" },
      expireTime: timestampFromMs(clock.unixMs() + 1_000),
    }),
    serviceCall(),
  );
const rotate = (overlapMs: number) =>
  rotateKey(
    create(RotateKeyRequestSchema, { teamId: team.id, keyId, overlap: durationFromMs(overlapMs) }),
    serviceCall(),
  );

test("the answer to a revocation waits until every instance knows it, whoever revokes, and when it is repeated", async () => {
  for (const by of [serviceCall().principal, leakReport, leakReport] as const) {
    await keyring.revoke({ teamId: team.id, keyId, by });
  }
  expect(told).toEqual(Array(3).fill({ id: keyId, waits: true }));
});

test("an expiry that is brought forward is waited for, and a new label is not", async () => {
  await update(["expire_time", "label"]);
  await update(["label"]);
  expect(told).toEqual([
    { id: keyId, waits: true },
    { id: keyId, waits: false },
  ]);
});

test("a rotation waits for the end of the old key, also with an overlap, and not for the new key", async () => {
  for (const overlapMs of [60_000, 0]) {
    const { key } = await rotate(overlapMs);
    expect(told.splice(0)).toEqual([
      { id: key?.id, waits: false },
      { id: keyId, waits: true },
    ]);
    keyId = `other-${overlapMs}`;
    await stores.keys.insert(keyRecordOf({ id: keyId, teamId: team.id }), { activeMax: 99 });
  }
});

test("an app that is changed or deleted is waited for", async () => {
  await stores.apps.insert(newAppOf({ id: "one" }));
  const request = { app: { id: "one", displayName: "One" }, updateMask: { paths: ["display_name"] } };
  await apps.updateApp(create(UpdateAppRequestSchema, request), serviceCall());
  await apps.deleteApp({ appId: "one" } as never, serviceCall());
  expect(told).toEqual(Array(2).fill({ id: "one", waits: true }));
});

test("a service token is waited for when it is revoked or loses a team, and not when it is made", async () => {
  const call = serviceCall();
  const { token } = await tokens.create({ name: "ci", role: "manage", teamIds: [team.id] }, call);
  await tokens.leaveTeam(team.id, () => {});
  await tokens.revoke({ tokenId: token.id, by: call.principal });
  expect(told.map(({ waits }) => waits)).toEqual([false, true, true]);
});
