import { type Client, createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { afterAll, expect, test } from "vitest";
import { KeyState } from "#gen/keyrun/v1/key_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
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

/** The changes that Keyrun acknowledged before it was killed. */
interface Acknowledged {
  readonly created: Map<string, string>;
  readonly revoked: Set<string>;
}

const cycles = 20;
const writers = 4;

test(`kill -9 loses no acknowledged creation or revocation of a key, ${cycles} times over`, async () => {
  const dataDir = folders.create();
  const acknowledged: Acknowledged = { created: new Map(), revoked: new Set() };
  for (let cycle = 0; cycle < cycles; cycle++) {
    const { keyrun, keys, kill } = await start(dataDir);
    await expectAll(keyrun, keys, acknowledged);
    // Each cycle is killed after a different number of writes, while the next ones are in progress.
    const target = acknowledged.created.size + acknowledged.revoked.size + 1 + (cycle % 7);
    const writing = Array.from({ length: writers }, () => write(keys, acknowledged));
    while (acknowledged.created.size + acknowledged.revoked.size < target) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    await kill();
    await Promise.all(writing);
  }
  const { keyrun, keys, kill } = await start(dataDir);
  await expectAll(keyrun, keys, acknowledged);
  expect(acknowledged.created.size).toBeGreaterThan(cycles);
  expect(acknowledged.revoked.size).toBeGreaterThan(0);
  await kill();
}, 180_000);

/** Creates keys and revokes every second one, until the process has ended. */
async function write(keys: Client<typeof KeyService>, { created, revoked }: Acknowledged): Promise<void> {
  try {
    for (;;) {
      const { key, value } = await keys.createKey({ teamId: "demo" });
      const id = key?.id ?? "";
      created.set(id, value);
      const { key: other } = await keys.createKey({ teamId: "demo" });
      await keys.revokeKey({ teamId: "demo", keyId: other?.id ?? "" });
      revoked.add(other?.id ?? "");
    }
  } catch {
    // The process has ended. Changes that it did not acknowledge may or may not be in the store.
  }
}

async function expectAll(
  keyrun: ServingKeyrun,
  keys: Client<typeof KeyService>,
  { created, revoked }: Acknowledged,
): Promise<void> {
  const states = new Map<string, KeyState>();
  let pageToken = "";
  do {
    const page = await keys.listKeys({ teamId: "demo", showRevoked: true, pageSize: 100, pageToken });
    for (const { id, state } of page.keys) states.set(id, state);
    pageToken = page.nextPageToken;
  } while (pageToken !== "");
  for (const id of created.keys()) expect(states.get(id)).toBe(KeyState.ACTIVE);
  for (const id of revoked) expect(states.get(id)).toBe(KeyState.REVOKED);
  const newest = [...created.values()].at(-1);
  if (newest !== undefined) expect((await restRun(keyrun.publicUrl, { value: newest })).status).toBe(200);
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
