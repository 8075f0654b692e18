import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bounds } from "#src/bounds.ts";
import type { Stores } from "#src/store/stores.ts";
import { type Caller, connectCallers, type RunOutcome } from "../harness/callers.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { cancelFrame, h2Opening, headersFrame } from "../harness/h2-frames.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { rawSocket } from "../harness/raw-socket.ts";
import { restCaller } from "../harness/rest-caller.ts";

const clock = createManualClock();
const store = { reads: 0, held: [] as (() => void)[], hold: false };

const keyrun = closedAtEnd(
  await startKeyrun({ clock, settings: { KEYRUN_TRUST_PROXY: "1" }, onStores: watched }),
);

/** The real stores; reads of keys are counted, and a test can hold them up. */
function watched(stores: Stores): Stores {
  const find = async (keyId: string) => {
    store.reads += 1;
    if (store.hold) await new Promise<void>((resolve) => store.held.push(resolve));
    return stores.keys.find(keyId);
  };
  return { ...stores, keys: { ...stores.keys, find } };
}

test("a request that is cancelled in the packet that brings it costs no look-up", async () => {
  const direct = await startKeyrun({ onStores: watched });
  const client = rawSocket({ port: Number(new URL(direct.publicUrl).port) });
  const before = store.reads;
  const requests = Array.from({ length: 30 }, (_, at) => {
    const stream = 2 * at + 1;
    const headers = headersFrame(stream, [
      [":method", "POST"],
      [":scheme", "http"],
      [":path", "/api/apps/echo/run"],
      [":authority", "a"],
      ["authorization", `Bearer ${direct.unknownKey()}`],
    ]);
    return at < 20 ? Buffer.concat([headers, cancelFrame(stream)]) : headers;
  });
  client.send(Buffer.concat([h2Opening, ...requests]));
  const left = async () => {
    const answer = await fetch(`${direct.publicUrl}/api/apps/echo/run`, { method: "POST" });
    return Number(answer.headers.get("ratelimit-remaining"));
  };
  // The requests that were not cancelled are charged to the address, one look-up each.
  await expect.poll(left).toBe(bounds.addressLookupsMax - 10);
  expect(store.reads - before).toBe(10);
  client.socket.destroy();
  await direct.close();
});

let addressCount = 0;

function newAddress(): string {
  addressCount += 1;
  return `203.0.113.${addressCount}`;
}

const entries = { REST: restCaller, gRPC: connectCallers.gRPC ?? restCaller };

describe.each(Object.entries(entries))("over %s", (_, make) => {
  let caller: Caller;
  beforeAll(() => {
    caller = make(keyrun.publicUrl);
  });
  afterAll(() => caller.close());

  const run = (value: string, address: string) =>
    caller.run({
      appId: "echo",
      text: "x",
      authorization: `Bearer ${value}`,
      headers: { "x-forwarded-for": address },
    });
  const exhaust = async (address: string) => {
    for (let i = 0; i < bounds.addressLookupsMax; i++) await run(keyrun.unknownKey(), address);
  };

  test("an address past its look-ups still gets 401, never 429, and headers that say nothing is left", async () => {
    const address = newAddress();
    await exhaust(address);
    const outcome = await run(keyrun.unknownKey(), address);
    expect(reasonOf(outcome)).toBe("INVALID_API_KEY");
    expect(outcome.headers.get("ratelimit")).toBe('"address";r=0;t=60');
    expect(outcome.headers.get("ratelimit-limit")).toBe("60");
    expect(outcome.headers.get("retry-after")).toBeNull();
  });

  test("good keys from an address past its look-ups are served, the first time and cached", async () => {
    const address = newAddress();
    await exhaust(address);
    const { value } = await keyrun.newKey(await keyrun.newTeam());
    for (let i = 0; i < 2; i++) expect(await run(value, address)).toMatchObject({ kind: "ok" });
  });

  test("a bad form, an id known to be absent, a wrong secret and a revoked key cost no look-up", async () => {
    const address = newAddress();
    const key = await keyrun.newKey(await keyrun.newTeam());
    const unknown = keyrun.unknownKey();
    await run(key.value, address);
    await run(unknown, address);
    await keyrun.keys.revokeKey({ teamId: key.teamId, keyId: key.id });
    const readsBefore = store.reads;
    const wrongSecret = key.value.slice(0, 29) + unknown.slice(29);
    for (const value of [key.value.slice(0, -1), "nonsense", unknown, wrongSecret, key.value]) {
      const outcome = await run(value, address);
      expect(outcome.headers.get("ratelimit")).toBe('"address";r=59;t=60');
    }
    expect(store.reads).toBe(readsBefore);
  });

  test("at the bound look-ups run one at a time, and one that waits too long gets 503", async () => {
    const address = newAddress();
    await exhaust(address);
    const before = await keyrun.metric("keyrun_address_allowance_refusals_total");
    const readsBefore = store.reads;
    store.hold = true;
    const first = run(keyrun.unknownKey(), address);
    await expect.poll(() => store.reads).toBe(readsBefore + 1);
    const second = await run(keyrun.unknownKey(), address);
    expect(reasonOf(second)).toBe("UNAVAILABLE");
    expect(second.headers.get("ratelimit-policy")).toBe('"address";q=60;w=60');
    expect(store.reads).toBe(readsBefore + 1);
    store.hold = false;
    for (const release of store.held.splice(0)) release();
    expect(reasonOf(await first)).toBe("INVALID_API_KEY");
    expect((await keyrun.metric("keyrun_address_allowance_refusals_total")) - before).toBe(1);
  });
});

test("the internal listener has no allowance for addresses", async () => {
  const caller = (connectCallers.gRPC ?? restCaller)(keyrun.internalUrl);
  for (let i = 0; i <= bounds.addressLookupsMax; i++) {
    const outcome = await caller.run({
      appId: "echo",
      text: "x",
      authorization: `Bearer ${keyrun.unknownKey()}`,
    });
    expect(reasonOf(outcome)).toBe("INVALID_API_KEY");
    expect([...outcome.headers.keys()].filter((name) => name.startsWith("ratelimit"))).toEqual([]);
  }
  caller.close();
});

function reasonOf(outcome: RunOutcome): string | undefined {
  if (outcome.kind === "ok") return "OK";
  const [info] = outcome.details as { reason?: string }[];
  return info?.reason;
}
