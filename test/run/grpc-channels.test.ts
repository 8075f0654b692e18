import { connectivityState } from "@grpc/grpc-js";
import { afterEach, expect, test } from "vitest";
import { type ChannelLease, createGrpcChannels } from "#src/run/grpc-channels.ts";

const hosts = { find: () => new Promise<never>(() => {}), close: () => {} };
const channels = createGrpcChannels(hosts, { outputBytesMax: 1_024, idleChannelsMax: 2 });
afterEach(() => channels.close());

const acquire = (host: string, tls = false) => channels.acquire({ target: `${host}.example:9001`, tls });
const isClosed = ({ client }: ChannelLease) =>
  client.getChannel().getConnectivityState(false) === connectivityState.SHUTDOWN;

test("a target has one channel without TLS and one with TLS", () => {
  const leases = [acquire("a"), acquire("a"), acquire("a", true)];
  expect(leases[0]!.client).toBe(leases[1]!.client);
  expect(leases[0]!.client).not.toBe(leases[2]!.client);
  for (const channel of leases) channel.release();
});

test("a host with the name of a gRPC scheme is still a host", () => {
  const lease = channels.acquire({ target: "unix:9001", tls: false });
  expect(lease.client.getChannel().getTarget()).toBe("keyrun-host:unix:9001");
  lease.release();
});

test("if there are too many unused channels, the one used longest ago is closed", () => {
  const [a, b, c] = [acquire("a"), acquire("b"), acquire("c")];
  for (const channel of [b, a, c]) channel.release();
  expect([a, b, c].map(isClosed)).toEqual([true, false, false]);

  const again = acquire("b");
  const d = acquire("d");
  expect(again.client).toBe(b.client);
  again.release();
  d.release();
  expect([b, c, d].map(isClosed)).toEqual([false, true, false]);
});

test("a channel in use is never closed, even above the bound", () => {
  const leases = ["a", "b", "c", "d"].map((host) => acquire(host));
  acquire("e").release();
  expect(leases.map(isClosed)).toEqual([false, false, false, false]);
  for (const channel of leases) channel.release();
  expect(leases.map(isClosed)).toEqual([true, true, true, false]);
});

test("a retired channel keeps its runs, gets no new one, and closes after the last", () => {
  const [one, other] = [acquire("a"), acquire("a")];
  one.retire();
  one.release();
  const next = acquire("a");
  expect(next.client).not.toBe(other.client);
  expect(isClosed(other)).toBe(false);
  other.retire();
  other.release();
  expect(isClosed(other)).toBe(true);
  expect(acquire("a").client).toBe(next.client);
});
