import { randomBytes } from "node:crypto";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type Client, Code, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AuditOutcome } from "#gen/keyrun/v1/audit_event_pb.ts";
import { AuditService } from "#gen/keyrun/v1/audit_service_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { ServiceRole } from "#gen/keyrun/v1/service_token_pb.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { type Keyrun, startKeyrun, tokenTransports } from "../harness/keyrun.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { signInOwner } from "../harness/members.ts";
import { storeOfTier } from "../harness/mongo-databases.ts";
import { writtenEvents } from "./written-events.ts";

const { VERIFY, MANAGE, METRICS } = ServiceRole;
const folders = tempFolders();

/** A Keyrun whose written events the test sees, also those that no list shows yet. */
async function startWatched(options: Parameters<typeof startKeyrun>[0] = {}) {
  const { written, onStores } = writtenEvents();
  return { keyrun: await startKeyrun({ ...options, onStores }), written };
}

describe.each(Object.keys(tokenTransports))("over %s", (protocol) => {
  let keyrun: Keyrun;
  beforeAll(async () => {
    keyrun = await startKeyrun();
    await keyrun.teams.createTeam({ team: { id: "others" } });
  });
  afterAll(() => keyrun.close());

  async function attempt(token: string, request: { teamId: string }) {
    const { keys } = {
      keys: createClient(KeyService, tokenTransports[protocol]!(keyrun.internalUrl, token)),
    };
    await expect(keys.createKey(request)).rejects.toMatchObject({ code: Code.PermissionDenied });
    return (await keyrun.audit.listEvents({ action: "key.create" })).events;
  }

  test("what a service tried in a team that is not its own is written down under its name", async () => {
    const { name, value } = await keyrun.newServiceToken(MANAGE, ["demo"]);
    expect((await attempt(value, { teamId: "others" }))[0]).toMatchObject({
      ...{ actor: name, teamId: "", target: "others" },
      ...{ outcome: AuditOutcome.REFUSED, reason: "SERVICE_ROLE_REQUIRED", count: 1 },
    });
  });

  test("what a service tried without the role for it is written down under its name", async () => {
    const { name, value } = await keyrun.newServiceToken(VERIFY);
    expect((await attempt(value, { teamId: "demo" }))[0]).toMatchObject({
      ...{ actor: name, outcome: AuditOutcome.REFUSED, reason: "SERVICE_ROLE_REQUIRED", count: 1 },
    });
  });
});

test("wrong service tokens are written down whatever they were shown to, and joined; no token at all is not", async () => {
  const { keyrun, written } = await startWatched();
  const { value } = await keyrun.newServiceToken(METRICS);
  const wrong = `${value.slice(0, -3)}AAA`;
  for (const transport of Object.values(tokenTransports)) {
    const keys = createClient(KeyService, transport(keyrun.internalUrl, wrong));
    await expect(keys.listKeys({ teamId: "demo" })).rejects.toMatchObject({ code: Code.Unauthenticated });
    await expect(keys.verifyKey({ value: "x" })).rejects.toMatchObject({ code: Code.Unauthenticated });
  }
  const metrics = (headers: Record<string, string>) => fetch(`${keyrun.internalUrl}/metrics`, { headers });
  expect((await metrics({ authorization: `Bearer ${wrong}` })).status).toBe(401);
  expect((await metrics({})).status).toBe(401);
  expect((await metrics({ authorization: `Bearer ${value}` })).status).toBe(200);
  const nobody = createClient(KeyService, createGrpcTransport({ baseUrl: keyrun.internalUrl }));
  await expect(nobody.listKeys({ teamId: "demo" })).rejects.toMatchObject({ code: Code.Unauthenticated });
  await keyrun.close();
  const refused = written.filter(({ outcome }) => outcome === "refused");
  const shared = { actor: "unknown", address: "127.0.0.1", action: "service_token.refused" };
  expect(refused).toMatchObject(refused.map(() => ({ ...shared, reason: "INVALID_CREDENTIAL" })));
  expect(refused.reduce((sum, { count }) => sum + count, 0)).toBe(5);
  expect(refused.length).toBeLessThanOrEqual(2);
});

test("refused leak reports of a known service are joined as those of strangers are, with its name", async () => {
  const clock = createManualClock();
  const { keyrun, written } = await startWatched({ clock });
  const { value } = await keyrun.newServiceToken(VERIFY);
  const keys = createClient(KeyService, tokenTransports.gRPC!(keyrun.internalUrl, value));
  const key = await keyrun.newKey(await keyrun.newTeam());
  for (let n = 0; n < 20; n++) {
    const report = keys.revokeLeakedKey({ value: keyrun.unknownKey() });
    await expect(report).rejects.toMatchObject({ code: Code.NotFound });
  }
  await keys.revokeLeakedKey({ value: key.value });
  await keyrun.close();
  const reports = written.filter(({ action }) => action === "key.revoke_leaked");
  expect(reports.map(({ outcome, count }) => [outcome, count])).toEqual([["refused", 20]]);
  expect(reports[0]?.actor).not.toBe("unknown");
});

describe.each(storeOfTier())("on %s", (_, settings) => {
  test("what changes nothing is done, and has no event", async () => {
    const { keyrun, written } = await startWatched({ settings: settings() });
    await keyrun.teams.createTeam({ team: { id: "demo" } }).catch(() => {});
    const { id: keyId, value } = await keyrun.newKey("demo");
    const { id: serviceTokenId } = await keyrun.newServiceToken(VERIFY);
    const [email, other] = ["ada@example.com", "eve@example.com"];
    const anyone = createClient(
      KeyService,
      createConnectTransport({ baseUrl: keyrun.publicUrl, httpVersion: "1.1" }),
    );
    const changes = async () => {
      await keyrun.keys.revokeKey({ teamId: "demo", keyId });
      await keyrun.serviceTokens.revokeServiceToken({ serviceTokenId });
      await keyrun.teams.addMember({ teamId: "demo", email });
      await keyrun.teams.setPreviewAccess({ email, granted: true });
    };
    await changes();
    const before = (await keyrun.audit.listEvents({})).events.map(({ id }) => id);
    for (let n = 0; n < 3; n++) {
      await changes();
      await keyrun.teams.removeMember({ teamId: "demo", email: other });
      await keyrun.teams.setPreviewAccess({ email: other, granted: false });
      await anyone.revokeLeakedKey({ value });
    }
    expect((await keyrun.audit.listEvents({})).events.map(({ id }) => id)).toEqual(before);
    await keyrun.close();
    // Neither is one written when the instance stops.
    expect(written.filter(({ id }) => !before.includes(id)).map(({ action }) => action)).toEqual([
      "instance.stop",
    ]);
  });
});

describe("an earlier team with the same id", () => {
  let keyrun: Keyrun;
  const clock = createManualClock();
  beforeAll(async () => {
    keyrun = await startKeyrun({ clock });
    await keyrun.teams.createTeam({ team: { id: "again" } });
    const { id: keyId } = await keyrun.newKey("again");
    await keyrun.keys.revokeKey({ teamId: "again", keyId });
    await keyrun.teams.deleteTeam({ teamId: "again" });
    clock.stepWall(1_000);
    await keyrun.teams.createTeam({ team: { id: "again" } });
    await keyrun.teams.addMember({ teamId: "again", email: "owner@localhost" });
  });
  afterAll(() => keyrun.close());

  const actionsFor = async (audit: Client<typeof AuditService>, span = {}) =>
    (await audit.listEvents({ teamId: "again", ...span })).events.map(({ action }) => action);
  const own = ["member.add", "team.create"];

  test("keeps its events from members of the new one, also where they ask for them by time", async () => {
    const { browser } = await signInOwner(keyrun);
    const audit = createClient(AuditService, browser.transport);
    expect(await actionsFor(audit)).toEqual(own);
    expect(await actionsFor(audit, { startTime: timestampFromMs(1) })).toEqual(own);
    expect(await actionsFor(audit, { endTime: timestampFromMs(clock.unixMs()) })).toEqual([]);
  });

  test("keeps its events from a service of the new one, and an admin sees them all", async () => {
    const { value } = await keyrun.newServiceToken(MANAGE, ["again"]);
    const audit = createClient(AuditService, tokenTransports.gRPC!(keyrun.internalUrl, value));
    expect(await actionsFor(audit)).toEqual(own);
    expect(await actionsFor(keyrun.audit)).toContain("team.delete");
  });
});

test("a key that is updated to end now has the event of its expiry, once", async () => {
  const keyrun = await startKeyrun();
  const { id: keyId } = await keyrun.newKey("demo");
  const updateMask = { paths: ["expire_time"] };
  await keyrun.keys.updateKey({
    ...{ teamId: "demo", keyId, updateMask },
    expireTime: timestampFromMs(Date.now() - 1_000),
  });
  const { events } = await keyrun.audit.listEvents({ teamId: "demo" });
  const ofKey = events.filter(({ target }) => target === keyId).map(({ action, actor }) => [action, actor]);
  expect(ofKey.toSorted()).toEqual([
    ["key.create", "the service token"],
    ["key.expire", "Keyrun"],
    ["key.update", "the service token"],
  ]);
  await keyrun.close();
});

test("a key of a rotation that was cut off is revoked with an event", async () => {
  const dataDir = folders.create();
  const settings = { KEYRUN_DATA_DIR: dataDir, KEYRUN_SECRET: randomBytes(32).toString("base64url") };
  const first = await startKeyrun({ settings });
  const { id } = await first.newKey("demo");
  await first.close();
  const stores = await openSqliteStores({ dataDir });
  const made = await stores.keys.find(id);
  if (!made) throw new Error("no key");
  const orphan = { ...made, id: "7k3f0m9x2a4c6e8g1j5n7p9q", requestId: null, pendingSinceMs: 1 };
  await stores.keys.insert(orphan, { activeMax: 50 });
  await stores.close();
  const keyrun = await startKeyrun({ settings });
  const revoked = { id: `revoked:${orphan.id}`, teamId: "demo", target: orphan.id, actor: "Keyrun" };
  await expect
    .poll(async () => (await keyrun.audit.listEvents({ action: "key.revoke" })).events)
    .toMatchObject([revoked]);
  await keyrun.close();
});
