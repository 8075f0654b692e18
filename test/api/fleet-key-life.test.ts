import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { KeyState } from "#gen/keyrun/v1/key_pb.ts";
import type { KeyStore } from "#src/keys/key-store.ts";
import { unavailable } from "#src/refusal/refusal.ts";
import type { Stores } from "#src/store/stores.ts";
import { describeFleet, type FleetHere, startFleet } from "../harness/fleet.ts";
import type { Keyrun } from "../harness/keyrun.ts";
import { servedRun } from "../harness/keyrun-process.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";

describeFleet("here")("the life of a key in a fleet", () => {
  let fleet: FleetHere;
  beforeAll(async () => {
    fleet = await startFleet({ in: "here", each: [{ onStores: cutOff }, {}] });
  });
  afterAll(() => fleet.close());

  let cutsOff = false;
  /** The real stores, whose rotations can be told as cut off. */
  function cutOff(stores: Stores): Stores {
    const rotate: KeyStore["rotate"] = async (order) => {
      const outcome = await stores.keys.rotate(order);
      if (!cutsOff || outcome.kind !== "rotated") return outcome;
      return { kind: "cut_off", replaced: outcome.replaced, cause: unavailable() };
    };
    return { ...stores, keys: { ...stores.keys, rotate } };
  }

  const stateNames = ["", "ACTIVE", "REVOKED", "EXPIRED"];
  const mask = (...paths: string[]) => ({ updateMask: { paths } });
  const status = async ({ publicUrl }: Keyrun, value: string) =>
    (await servedRun(publicUrl, { value, appId: "echo", text: "x" })).status;

  /** What those are told who watch the team on the instance. */
  async function watch({ keys }: Keyrun, teamId: string) {
    const words: string[] = [];
    const leaving = new AbortController();
    const stream = keys.watchKeys({ teamId }, { signal: leaving.signal })[Symbol.asyncIterator]();
    await stream.next();
    void (async () => {
      for (;;) {
        const { value, done } = await stream.next();
        if (done) return;
        const { event } = value;
        if (event.case !== "created" && event.case !== "changed" && event.case !== "revoked") continue;
        words.push(`${event.case} ${event.value.id} ${event.value.label} ${stateNames[event.value.state]}`);
      }
    })().catch(() => {});
    onTestFinished(() => leaving.abort());
    return words;
  }

  test("an expiry that one brings forward holds on the other with the answer, cached or not", async () => {
    const [one, other] = fleet.members;
    const teamId = await one.newTeam();
    for (let n = 0; n < 10; n++) {
      const { id: keyId, value } = await one.newKey(teamId);
      expect(await status(other, value)).toBe(200);
      const expireTime = timestampFromMs(0);
      await one.keys.updateKey({ teamId, keyId, expireTime, ...mask("expire_time") });
      expect(await status(other, value)).toBe(401);
    }
  });

  test("a rotation that is cut off after the old key's end fails, and no instance accepts the old key", async () => {
    const [one, other] = fleet.members;
    const teamId = await one.newTeam();
    const words = await watch(other, teamId);
    const { id: keyId, value } = await one.newKey(teamId);
    expect([await status(one, value), await status(other, value)]).toEqual([200, 200]);
    cutsOff = true;
    onTestFinished(() => {
      cutsOff = false;
    });
    await expect(one.keys.rotateKey({ teamId, keyId })).rejects.toMatchObject({ code: Code.Unavailable });
    expect([await status(one, value), await status(other, value)]).toEqual([401, 401]);
    await expect.poll(() => words.at(-1)).toBe(`revoked ${keyId}  REVOKED`);
  });

  test("a key and its successors have one limit of their own over all instances", async () => {
    const [one, other] = fleet.members;
    const old = await one.newKey(await one.newTeam(), { requestsPerMinute: 4 });
    const run = ({ publicUrl }: Keyrun, value: string) => servedRun(publicUrl, { value });
    const spent = [await status(one, old.value), await status(other, old.value)];
    while (spent.at(-1) === 200) spent.push(await status(one, old.value));
    expect(spent.length).toBeLessThanOrEqual(5);
    const values = [old.value];
    let keyId = old.id;
    for (const [keyrun, overlap] of [
      [other, durationFromMs(60_000)],
      [one, undefined],
    ] as const) {
      const { key, value } = await keyrun.keys.rotateKey({ teamId: old.teamId, keyId, overlap });
      keyId = key?.id ?? "";
      values.push(value);
    }
    for (const keyrun of [one, other]) {
      const [first, , last] = await Promise.all(values.map((value) => run(keyrun, value)));
      for (const refused of [first, last]) {
        expect([refused?.status, refused?.headers.get("ratelimit-limit")]).toEqual([429, "4"]);
        expect(refused?.headers.get("ratelimit")).toContain('"key";r=0;t=');
      }
    }
  });

  test("a run that ends on the other after its team was deleted shows in no new team of its id", async () => {
    const [one, other] = fleet.members;
    const teamId = await one.newTeam();
    const key = await one.newKey(teamId);
    const app = await startScriptedApp();
    onTestFinished(app.close);
    await one.apps.createApp({ app: { id: "waiting", backend: app.backend } });
    const running = servedRun(other.publicUrl, { value: key.value, appId: "waiting", text: "wait" });
    await app.waits(1);
    await one.keys.revokeKey({ teamId, keyId: key.id });
    await one.teams.deleteTeam({ teamId });
    await one.teams.createTeam({ team: { id: teamId } });
    app.drop();
    expect((await running).status).toBe(502);
    const { points } = await other.keys.getUsage({ teamId });
    const counts = points.map((point) => [point.acceptedCount, point.failedCount]);
    expect(counts.flat().filter((count) => count > 0n)).toEqual([]);
  });

  test("each change of a key is told once to those who watch on the other, also many, and a deletion is not", async () => {
    const [one, other] = fleet.members;
    const teamId = await one.newTeam();
    const words = await watch(other, teamId);
    const { id: keyId } = await one.newKey(teamId);
    for (const label of ["a", "b", "c", "d"]) {
      await one.keys.updateKey({ teamId, keyId, label, ...mask("label") });
      await expect.poll(() => words.at(-1)).toBe(`changed ${keyId} ${label} ACTIVE`);
    }
    await one.keys.updateKey({ teamId, keyId, expireTime: timestampFromMs(0), ...mask("expire_time") });
    await expect.poll(() => words.at(-1)).toBe(`changed ${keyId} d EXPIRED`);
    await one.keys.revokeKey({ teamId, keyId });
    await expect.poll(() => words.at(-1)).toBe(`revoked ${keyId} d REVOKED`);
    expect(words).toHaveLength(7);
    await one.teams.deleteTeam({ teamId });
    expect(words).toHaveLength(7);
  });

  test("a key expires on each, is marked once, and is told as changed", async () => {
    const [one, other] = fleet.members;
    const teamId = await one.newTeam();
    const [here, there] = [await watch(one, teamId), await watch(other, teamId)];
    const { id: keyId, value } = await one.newKey(teamId);
    const endMs = Date.now() + 3_000;
    await one.keys.updateKey({ teamId, keyId, expireTime: timestampFromMs(endMs), ...mask("expire_time") });
    const before = [await status(one, value), await status(other, value)];
    if (Date.now() < endMs) expect(before).toEqual([200, 200]);
    await expect.poll(() => Date.now() >= endMs).toBe(true);
    expect([await status(one, value), await status(other, value)]).toEqual([401, 401]);
    for (const words of [here, there]) {
      await expect.poll(() => words.at(-1)).toBe(`changed ${keyId}  EXPIRED`);
      expect(words).toHaveLength(3);
    }
    const { keys } = await other.keys.listKeys({ teamId, showRevoked: true });
    expect(keys).toMatchObject([{ id: keyId, state: KeyState.EXPIRED }]);
  });
});
