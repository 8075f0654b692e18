import { expect, test } from "vitest";
import { createHostLookup } from "#src/run/host-lookup.ts";
import { createResolveHost, type ResolveHost } from "#src/run/resolve-host.ts";
import { runBounds } from "#src/run/run-bounds.ts";
import { expectPending } from "../harness/app-backends.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { startNameServer } from "../harness/name-server.ts";

const address = { address: "192.0.2.1", family: 4 };

/** A source that answers each name with what it has been given, and counts. */
function createSource(keptMs: number | undefined) {
  const clock = createManualClock();
  let asked = 0;
  const resolve: ResolveHost = async () => {
    asked += 1;
    return { addresses: [address], keptMs };
  };
  return { clock, asked: () => asked, hosts: createHostLookup({ clock, timers: clock, resolve }) };
}

test.each([
  ["as long as its records say", 30_000, 30_000],
  ["10 s if the source does not say", undefined, 10_000],
  ["an hour at most", Number.MAX_SAFE_INTEGER, 3_600_000],
  ["not at all if its records say so", 0, 0],
])("what was found is kept %s", async (_, keptMs, expectedMs) => {
  const { clock, asked, hosts } = createSource(keptMs);
  await hosts.find("app.example");
  if (expectedMs > 0) {
    clock.advance(expectedMs - 1);
    expect(await hosts.find("app.example")).toEqual([address]);
    expect(asked()).toBe(1);
    clock.advance(1);
  }
  expect(await hosts.find("app.example")).toEqual([address]);
  expect(asked()).toBe(2);
});

test("names that are kept are bounded: the oldest makes room", async () => {
  const { asked, hosts } = createSource(60_000);
  for (let at = 0; at <= runBounds.keptHostsMax; at += 1) await hosts.find(`app-${at}.example`);
  const before = asked();
  await hosts.find("app-1.example");
  expect(asked()).toBe(before);
  await hosts.find("app-0.example");
  expect(asked()).toBe(before + 1);
});

test("an address needs no look-up", async () => {
  const { asked, hosts } = createSource(60_000);
  expect(await hosts.find("::1")).toEqual([{ address: "::1", family: 6 }]);
  expect(await hosts.find("192.0.2.1")).toEqual([address]);
  expect(asked()).toBe(0);
});

test("look-ups of one name are joined, and a failure is not kept", async () => {
  await using server = await startNameServer();
  const resolve = createResolveHost(server.files());
  const clock = createManualClock();
  const hosts = createHostLookup({ clock, timers: clock, resolve });
  const failures = await Promise.allSettled(Array.from({ length: 50 }, () => hosts.find("app.example")));
  expect(failures.every(({ status }) => status === "rejected")).toBe(true);
  expect(server.asked).toEqual(["app.example"]);
  server.set("app.example", [{ address: "192.0.2.1", ttlS: 60 }]);
  const found = await Promise.all(Array.from({ length: 50 }, () => hosts.find("app.example")));
  expect(new Set(found.flat().map((each) => each.address))).toEqual(new Set(["192.0.2.1"]));
  expect(server.asked).toHaveLength(2);
});

test("a silent name server is given up after 5 s, and does not hold up another name", async () => {
  const known = { "silent.example": "silent", "app.example": [{ address: "192.0.2.1", ttlS: 1 }] } as const;
  await using server = await startNameServer(known);
  const resolve = createResolveHost(server.files());
  const clock = createManualClock();
  const hosts = createHostLookup({ clock, timers: clock, resolve });
  const silent = hosts.find("silent.example").catch((thrown: unknown) => thrown);
  expect(await hosts.find("app.example")).toEqual([address]);
  await expect.poll(() => server.asked).toContain("silent.example");
  clock.advance(4_999);
  await expectPending(silent);
  clock.advance(1);
  expect(String(await silent)).toContain("No name server answered within 5000 ms.");
});

test("names looked up at once are bounded, and close ends them all", async () => {
  const clock = createManualClock();
  const hosts = createHostLookup({ clock, timers: clock, resolve: () => new Promise(() => {}) });
  const pending = Array.from({ length: runBounds.hostLookupsMax }, (_, at) =>
    hosts.find(`app-${at}.example`),
  );
  const ended = Promise.allSettled(pending);
  await expect(hosts.find("one-more.example")).rejects.toThrow("Too many names are being looked up.");
  hosts.close();
  expect((await ended).every(({ status }) => status === "rejected")).toBe(true);
});
