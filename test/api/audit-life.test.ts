import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { afterAll, afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { AuditOutcome } from "#gen/keyrun/v1/audit_event_pb.ts";
import { KeyState } from "#gen/keyrun/v1/key_pb.ts";
import { VerifyKeyResponse_Verdict as Verdict } from "#gen/keyrun/v1/key_service_pb.ts";
import type { AuditEvent } from "#src/audit/audit-store.ts";
import type { Clock } from "#src/base/clock.ts";
import { unavailable } from "#src/refusal/refusal.ts";
import type { Stores } from "#src/store/stores.ts";
import { runCommand } from "../harness/command-line.ts";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { createMongoDatabases, storeOfTier } from "../harness/mongo-databases.ts";
import { describeWith, mongodbMissing } from "../harness/needs.ts";
import { auditEventOf } from "../harness/store-records.ts";
import { refusedCall } from "./refused-call.ts";

const dayMs = 86_400_000;

/** A Keyrun on such a store, which ends with its test. */
function createStart(settings: () => Record<string, string>, clock: Clock) {
  return async (options: Parameters<typeof startKeyrun>[0] = {}): Promise<Keyrun> => {
    const keyrun = await startKeyrun({ clock, ...options, settings: { ...settings(), ...options.settings } });
    onTestFinished(() => keyrun.close());
    await keyrun.teams.createTeam({ team: { id: "demo" } }).catch(() => {});
    return keyrun;
  };
}

const eventsOf = async ({ audit }: Keyrun, target: string) =>
  (await audit.listEvents({ pageSize: 100 })).events.filter((event) => event.target === target);
const actionsOf = async (keyrun: Keyrun, target: string) =>
  (await eventsOf(keyrun, target)).map(({ action }) => action);

function once(work: () => Promise<void>): () => Promise<void> {
  let isDone = false;
  return async () => {
    if (isDone) return;
    isDone = true;
    await work();
  };
}

describe.each(storeOfTier())("on %s", (_, settings) => {
  const clock = createManualClock();
  const start = createStart(settings, clock);

  async function expiredKey(keyrun: Keyrun) {
    const expireTime = timestampFromMs(clock.unixMs() + 120_000);
    const { key, value } = await keyrun.keys.createKey({ teamId: "demo", expireTime });
    // Its wall clock alone: an instance whose other clock leaps has lost its hold on the store.
    clock.stepWall(120_001);
    return { keyId: key?.id ?? "", value };
  }

  test("a key that ends has one event of it, whoever comes upon it first and however often", async () => {
    const keyrun = await start();
    const { keyId } = await expiredKey(keyrun);
    await Promise.all([1, 2, 3].map(() => keyrun.keys.listKeys({ teamId: "demo" })));
    await keyrun.keys.listKeys({ teamId: "demo" });
    const [expired, ...others] = await eventsOf(keyrun, keyId);
    expect(expired).toMatchObject({
      ...{ id: `expired:${keyId}`, action: "key.expire", actor: "Keyrun", teamId: "demo", count: 1 },
      outcome: AuditOutcome.DONE,
    });
    expect(others.map(({ action }) => action)).toEqual(["key.create"]);
    expect(keyrun.logLines.filter((line) => line.includes(`"expired:${keyId}"`))).toHaveLength(1);
  });

  describe("an update that ends a key at once", () => {
    const ends = (keyId: string) => ({
      ...{ teamId: "demo", keyId, expireTime: timestampFromMs(1) },
      updateMask: { paths: ["expire_time"] },
    });

    test.each([
      ["before it", 0],
      ["between it and the mark", 1],
    ] as const)(
      "and a revocation that comes %s leave no event of what did not happen",
      async (_when, isLate) => {
        let revoke = async () => {};
        const between = (isDue: number) => (isDue === isLate ? revoke() : undefined);
        const keyrun = await start({
          onStores: (stores) => ({
            ...stores,
            keys: {
              ...stores.keys,
              async update(order) {
                await between(0);
                return stores.keys.update(order);
              },
              async markExpired(order) {
                if (order.keyId !== undefined) await between(1);
                return stores.keys.markExpired(order);
              },
            },
          }),
        });
        const { id: keyId } = await keyrun.newKey("demo");
        revoke = once(async () => void (await keyrun.keys.revokeKey({ teamId: "demo", keyId })));
        const update = keyrun.keys.updateKey(ends(keyId));
        const outcome = isLate === 0 ? (await refusedCall(update)).reason : await update;
        const { keys } = await keyrun.keys.listKeys({ teamId: "demo", showRevoked: true });
        const key = keys.find(({ id }) => id === keyId);
        expect(key?.state).toBe(KeyState.REVOKED);
        expect(key?.expireTime === undefined).toBe(isLate === 0);
        expect(outcome).toEqual(isLate === 0 ? "KEY_ENDED" : expect.objectContaining({ key }));
        const done = (await eventsOf(keyrun, keyId)).filter(({ outcome }) => outcome === AuditOutcome.DONE);
        const actions = isLate === 0 ? [] : ["key.update"];
        expect(done.map(({ action }) => action).toSorted()).toEqual(["key.create", "key.revoke", ...actions]);
      },
    );

    test("and is cut off before its mark is completed by the sweep, with one event", async () => {
      let isCut = true;
      const keyrun = await start({
        onStores: (stores) => ({
          ...stores,
          audit: {
            ...stores.audit,
            async insert(event) {
              if (isCut) throw unavailable();
              return stores.audit.insert(event);
            },
          },
        }),
      });
      const { id: keyId, value } = await keyrun.newKey("demo");
      expect(await keyrun.keys.verifyKey({ value, cost: 0 })).toMatchObject({ verdict: Verdict.VALID });
      await expect(keyrun.keys.updateKey(ends(keyId))).rejects.toMatchObject({ code: Code.Unavailable });
      expect(await keyrun.keys.verifyKey({ value, cost: 0 })).toMatchObject({ verdict: Verdict.EXPIRED });
      expect(await actionsOf(keyrun, keyId)).not.toContain("key.expire");
      isCut = false;
      const stateOf = async () => {
        const { keys } = await keyrun.keys.listKeys({ teamId: "demo", showRevoked: true });
        return keys.find(({ id }) => id === keyId)?.state;
      };
      await expect.poll(stateOf).toBe(KeyState.EXPIRED);
      const expired = (await actionsOf(keyrun, keyId)).filter((action) => action === "key.expire");
      expect(expired).toHaveLength(1);
    });
  });

  test("a leak report ends an expired key for ever, too, with one event for the first report", async () => {
    const keyrun = await start();
    const { keyId, value } = await expiredKey(keyrun);
    const first = await keyrun.keys.revokeLeakedKey({ value });
    expect(await keyrun.keys.revokeLeakedKey({ value })).toEqual(first);
    const { keys } = await keyrun.keys.listKeys({ teamId: "demo", showRevoked: true });
    expect(keys.find(({ id }) => id === keyId)).toMatchObject({
      ...{ state: KeyState.REVOKED, revokedBy: "a leak report", revokeTime: first.revokeTime },
    });
    const reports = (await actionsOf(keyrun, keyId)).filter((action) => action === "key.revoke_leaked");
    expect(reports).toEqual(["key.revoke_leaked"]);
  });

  test("a change whose answer the store lost is listed as unknown, with its target", async () => {
    let isLosing = false;
    const keyrun = await start({
      onStores: (stores) => ({
        ...stores,
        keys: {
          ...stores.keys,
          async revoke(order) {
            const revoked = await stores.keys.revoke(order);
            if (isLosing) throw unavailable();
            return revoked;
          },
        },
      }),
    });
    const { id: keyId } = await keyrun.newKey("demo");
    isLosing = true;
    const revoking = keyrun.keys.revokeKey({ teamId: "demo", keyId });
    await expect(revoking).rejects.toMatchObject({ code: Code.Unavailable });
    const [event] = await eventsOf(keyrun, keyId);
    expect(event).toMatchObject({
      ...{ action: "key.revoke", teamId: "demo", outcome: AuditOutcome.UNKNOWN, reason: "UNAVAILABLE" },
    });
    const env = {
      KEYRUN_GRPC_HOST: "127.0.0.1",
      KEYRUN_GRPC_PORT: String(keyrun.app.internalAddress.port),
      KEYRUN_SERVICE_TOKEN: keyrun.serviceToken,
    };
    // The manual clock is years behind the one of the command.
    const shown = await runCommand(["audit", "--action", "key.revoke", "--since", "9999d"], { env });
    expect(shown.stdout).toMatch(new RegExp(`key\\.revoke +demo +${keyId} +unknown UNAVAILABLE`));
  });

  describe("events that are older than KEYRUN_AUDIT_DAYS", () => {
    afterEach(() => void vi.useRealTimers());

    test("are removed by a sweep, and no others", async () => {
      // The sweep comes once a minute.
      vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
      const opened: Stores[] = [];
      const keyrun = await start({
        settings: { KEYRUN_AUDIT_DAYS: "3" },
        onStores: (stores) => {
          opened.push(stores);
          return stores;
        },
      });
      const audit = opened[0]!.audit;
      const at = (id: string, timeMs: number): AuditEvent => auditEventOf({ id, timeMs, teamId: "swept" });
      const nowMs = clock.unixMs();
      await audit.write([at("old", nowMs - 3 * dayMs - 1), at("kept", nowMs - 3 * dayMs), at("new", nowMs)]);
      await vi.advanceTimersByTimeAsync(60_000);
      const ids = async () => (await audit.list({ teamId: "swept", limit: 9 })).map(({ id }) => id);
      await expect.poll(ids).toEqual(["new", "kept"]);
      clock.stepWall(dayMs);
      await vi.advanceTimersByTimeAsync(60_000);
      await expect.poll(ids).toEqual(["new"]);
      expect(await actionsOf(keyrun, "")).toContain("team.create");
    });
  });
});

describeWith(mongodbMissing)("on MongoDB, which writes an event before its change", () => {
  const databases = createMongoDatabases();
  afterAll(() => databases.drop());
  test("a change that ended before its event could say so is listed as unknown, and told by the log", async () => {
    let isLosing = false;
    const keyrun = await createStart(
      () => ({ KEYRUN_MONGODB_URI: databases.createUri() }),
      createManualClock(),
    )({
      onStores: (stores: Stores) => ({
        ...stores,
        audit: {
          ...stores.audit,
          async write(events) {
            if (isLosing) throw unavailable();
            await stores.audit.write(events);
          },
        },
      }),
    });
    const { id: keyId } = await keyrun.newKey("demo");
    isLosing = true;
    await keyrun.keys.revokeKey({ teamId: "demo", keyId });
    const [event] = await eventsOf(keyrun, keyId);
    expect(event).toMatchObject({ action: "key.revoke", outcome: AuditOutcome.UNKNOWN, reason: "" });
    const line = keyrun.logLines.find((each) => each.includes(event?.id ?? "no event"));
    expect(JSON.parse(line ?? "{}")).toMatchObject({ audit: { target: keyId, outcome: "done" } });
    isLosing = false;
  });
});
