import { stat } from "node:fs/promises";
import { setImmediate as turn } from "node:timers/promises";
import { MongoClient, MongoServerError } from "mongodb";
import { expect, test, vi } from "vitest";
import { createStoreCall, repeatOnDuplicate, whileHolding } from "#src/store/mongo/store-call.ts";
import { describeWith, mongodbMissing, mongodbUri } from "../../harness/needs.ts";
import { openTcpProxy } from "../../harness/tcp-proxy.ts";

const call = createStoreCall(20_000);
const guardOf = (...answers: boolean[]) => ({
  isValid: () => answers.shift() ?? false,
  release: async () => {},
});

test("work past its time limit is UNAVAILABLE, however long it goes on", async () => {
  const forEver = new Promise<never>(() => {});
  await expect(createStoreCall(1)(() => forEver)).rejects.toMatchObject({
    reason: "UNAVAILABLE",
    retryAfterMs: 1_000,
  });
});

test("an answer that has come while the event loop stood still is not too late", async () => {
  // After the loop has read: the call's timer is then due before it reads again.
  await turn();
  const answered = createStoreCall(20)(() => stat("."));
  const untilMs = performance.now() + 100;
  while (performance.now() < untilMs);
  expect((await answered).isDirectory()).toBe(true);
});

test("an instance that does not hold does no work", async () => {
  let worked = false;
  const work = async () => {
    worked = true;
  };
  await expect(whileHolding(guardOf(false), call)(work)).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  expect(worked).toBe(false);
});

test("work is UNAVAILABLE where the instance stopped holding meanwhile, since a successor may not know of it", async () => {
  const held = whileHolding(guardOf(true, false), call);
  await expect(held(async () => "written")).rejects.toMatchObject({ reason: "UNAVAILABLE" });
  expect(await whileHolding(guardOf(true, true), call)(async () => "written")).toBe("written");
});

test.for([
  [14_031, "STORE_FULL"],
  [10_107, "UNAVAILABLE"],
  [91, "UNAVAILABLE"],
  [64, "UNAVAILABLE"],
  [50, "UNAVAILABLE"],
] as const)("the server's error %i is %s, with the error as private cause", async ([code, reason]) => {
  const error = new MongoServerError({ code, message: "of the server" });
  await expect(call(() => Promise.reject(error))).rejects.toMatchObject({ reason, cause: error });
});

describeWith(mongodbMissing)("a client that is closed, as its revival does", () => {
  /** A client whose server falls silent. */
  async function silentClient() {
    const { hostname, port } = new URL(mongodbUri);
    const proxy = await openTcpProxy({ host: hostname, port: Number(port) });
    const uri = mongodbUri.replace(/\/\/([^@/]*@)?[^/?]*/, `//$1127.0.0.1:${proxy.port}`);
    const client = new MongoClient(uri, { directConnection: true, maxPoolSize: 1, waitQueueTimeoutMS: 500 });
    const ping = () => call(() => client.db().command({ ping: 1 }));
    await ping();
    proxy.freeze();
    return { client, failure: () => ping().catch((thrown: unknown) => thrown), proxy };
  }

  test("a call that has just begun is UNAVAILABLE", async () => {
    const { client, failure, proxy } = await silentClient();
    const failing = failure();
    await client.close();
    expect(await failing).toMatchObject({
      reason: "UNAVAILABLE",
      cause: { name: "MongoExpiredSessionError" },
    });
    await proxy.close();
  });

  test("calls that wait for a connection are UNAVAILABLE", async () => {
    const { client, failure, proxy } = await silentClient();
    let waiting = 0;
    client.on("connectionCheckOutStarted", () => {
      waiting += 1;
    });
    const failing = [failure(), failure(), failure()];
    await vi.waitUntil(() => waiting === 3);
    // The driver ends its sessions first, and waits for a connection to do so. The last of these
    // calls wait behind it.
    const more = setInterval(() => failing.push(failure()), 50);
    await client.close();
    clearInterval(more);
    const thrown = await Promise.all(failing);
    expect(thrown).toMatchObject(thrown.map(() => ({ reason: "UNAVAILABLE" })));
    expect(thrown.at(-1)).toMatchObject({ cause: { name: "MongoPoolClosedError" } });
    await proxy.close();
  });
});

test("an error that says something about the request is passed on as it is", async () => {
  const error = new MongoServerError({ code: 2, message: "BadValue" });
  await expect(call(() => Promise.reject(error))).rejects.toBe(error);
});

test("an upsert that lost a race is tried once more, and only once", async () => {
  const duplicate = new MongoServerError({ code: 11_000, message: "E11000" });
  let attempts = 0;
  const failing = (times: number) => async () => {
    attempts += 1;
    if (attempts <= times) throw duplicate;
    return attempts;
  };
  expect(await repeatOnDuplicate(failing(1))).toBe(2);
  attempts = 0;
  await expect(repeatOnDuplicate(failing(9))).rejects.toBe(duplicate);
  expect(attempts).toBe(2);
});
