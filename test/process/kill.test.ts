import { setTimeout as pause } from "node:timers/promises";
import { type Client, createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { afterAll, expect, test } from "vitest";
import { KeyState } from "#gen/keyrun/v1/key_pb.ts";
import { KeyService, VerifyKeyResponse_Verdict } from "#gen/keyrun/v1/key_service_pb.ts";
import { campaignSize, figure, timeFigures } from "../harness/campaigns.ts";
import { withAuthorization } from "../harness/keyrun.ts";
import { restRun, type ServingKeyrun, serveKeyrun } from "../harness/keyrun-process.ts";
import { queryStore } from "../harness/stored-bytes.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

const folders = createTempFolders();
let running: ServingKeyrun | undefined;

afterAll(async () => {
  running?.kill("SIGKILL");
  await running?.exited;
  folders.remove();
});

const settings = { KEYRUN_PLAN_LIMITS: "free=100000", KEYRUN_KEYS_PER_TEAM_MAX: "10000" };

async function start(dataDir: string) {
  const keyrun = await serveKeyrun(dataDir, settings);
  running = keyrun;
  const sessionManager = new Http2SessionManager(keyrun.internalUrl);
  const interceptors = [withAuthorization(`Bearer ${keyrun.serviceToken()}`)];
  const transport = createGrpcTransport({ baseUrl: keyrun.internalUrl, sessionManager, interceptors });
  const keys = createClient(KeyService, transport);
  const kill = async () => {
    keyrun.kill("SIGKILL");
    expect(await keyrun.exited).toEqual({ code: null, signal: "SIGKILL" });
    sessionManager.abort();
  };
  return { keyrun, keys, kill };
}

/** What the writers asked for, and what of it Keyrun acknowledged before it was killed. */
class Writes {
  /** The values of the keys whose creation was acknowledged, by id. */
  readonly created = new Map<string, string>();
  /** The keys whose revocation was sent: without an acknowledgement they may be in either state. */
  readonly revoking = new Set<string>();
  readonly revoked = new Set<string>();

  get acknowledged(): number {
    return this.created.size + this.revoked.size;
  }

  /** The state that the key must have after a restart; undefined if both are right. */
  stateOf(id: string): KeyState | undefined {
    if (this.revoked.has(id)) return KeyState.REVOKED;
    return this.revoking.has(id) ? undefined : KeyState.ACTIVE;
  }
}

const cycles = campaignSize("kills");
const writers = 4;

test(`kill -9 loses no acknowledged creation or revocation of a key, ${cycles} times over`, {
  timeout: 180_000 + cycles * 20_000,
}, async () => {
  const dataDir = folders.create();
  const writes = new Writes();
  const startsMs: number[] = [];
  const wrong: string[] = [];
  let unchecked = new Map<string, string>();
  for (let cycle = 0; cycle <= cycles; cycle++) {
    const beganMs = performance.now();
    const { keyrun, keys, kill } = await start(dataDir);
    startsMs.push(performance.now() - beganMs);
    wrong.push(...(await wrongKeys(keys, writes)), ...(await wrongVerdicts(keys, writes, unchecked)));
    const newest = [...unchecked].find(([id]) => !writes.revoking.has(id));
    if (newest) expect((await restRun(keyrun.publicUrl, { value: newest[1] })).status).toBe(200);
    const before = new Set(writes.created.keys());
    if (cycle < cycles) {
      // Each cycle is killed after a different number of writes, while others are in progress.
      const target = writes.acknowledged + 40 + ((cycle * 29) % 81);
      const writing = Array.from({ length: writers }, () => write(keys, writes));
      // With a pause: what looks all the time takes the processor from the process that writes.
      while (writes.acknowledged < target) await pause(1);
      await kill();
      await Promise.all(writing);
    } else await kill();
    unchecked = new Map([...writes.created].filter(([id]) => !before.has(id)));
  }
  const { created, revoked } = writes;
  figure("creations acknowledged", created.size);
  figure("revocations acknowledged", revoked.size);
  figure("lost or revived", wrong.length);
  timeFigures("start to ready", startsMs);
  expect(wrong).toEqual([]);
  expect(created.size).toBeGreaterThan(20 * cycles);
  expect(revoked.size).toBeGreaterThan(10 * cycles);
});

/** Creates keys and revokes two of three, until the process has ended. */
async function write(keys: Client<typeof KeyService>, writes: Writes): Promise<void> {
  const create = async () => {
    const { key, value } = await keys.createKey({ teamId: "demo" });
    const id = key?.id ?? "";
    writes.created.set(id, value);
    return id;
  };
  try {
    for (;;) {
      await create();
      for (const keyId of [await create(), await create()]) {
        writes.revoking.add(keyId);
        await keys.revokeKey({ teamId: "demo", keyId });
        writes.revoked.add(keyId);
      }
    }
  } catch {
    // The process has ended. Changes that it did not acknowledge may or may not be in the store.
  }
}

/** The acknowledged writes that the list of keys does not show. */
async function wrongKeys(keys: Client<typeof KeyService>, writes: Writes): Promise<string[]> {
  const states = new Map<string, KeyState>();
  let pageToken = "";
  do {
    const page = await keys.listKeys({ teamId: "demo", showRevoked: true, pageSize: 100, pageToken });
    for (const { id, state } of page.keys) states.set(id, state);
    pageToken = page.nextPageToken;
  } while (pageToken !== "");
  return [...writes.created.keys()].flatMap((id) => {
    const state = states.get(id);
    if (state === undefined) return [`lost: ${id}`];
    return (writes.stateOf(id) ?? state) === state ? [] : [`in the wrong state: ${id}`];
  });
}

const verdicts = new Map<KeyState | undefined, VerifyKeyResponse_Verdict>([
  [KeyState.ACTIVE, VerifyKeyResponse_Verdict.VALID],
  [KeyState.REVOKED, VerifyKeyResponse_Verdict.REVOKED],
]);

/** The keys among these that are not accepted or refused as their last acknowledged write says. */
async function wrongVerdicts(
  keys: Client<typeof KeyService>,
  writes: Writes,
  values: ReadonlyMap<string, string>,
): Promise<string[]> {
  const wrong: string[] = [];
  for (const [id, value] of values) {
    const { verdict } = await keys.verifyKey({ value, cost: 0 });
    const right = verdicts.get(writes.stateOf(id));
    if (right !== undefined && right !== verdict) wrong.push(`wrongly accepted or refused: ${id}`);
  }
  return wrong;
}

test("a use of a key is soon in the store without a stop, and survives kill -9", async () => {
  const dataDir = folders.create();
  const first = await start(dataDir);
  const { key, value } = await first.keys.createKey({ teamId: "demo" });
  await restRun(first.keyrun.publicUrl, { value });
  const { keys } = await first.keys.listKeys({ teamId: "demo" });
  const used = keys[0]?.lastUseTime;
  expect(used).toBeDefined();
  const lastUseColumn = async () => {
    const [row] = await queryStore(dataDir, `SELECT * FROM keys WHERE id = '${key?.id}'`);
    return row?.last_use_time_ms;
  };
  while ((await lastUseColumn()) === null);
  await first.kill();
  const second = await start(dataDir);
  expect((await second.keys.listKeys({ teamId: "demo" })).keys[0]?.lastUseTime).toEqual(used);
  await second.kill();
});
