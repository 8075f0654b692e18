import { connectivityState } from "@grpc/grpc-js";
import { afterEach, expect, test } from "vitest";
import { createGrpcChannels, type LentChannel } from "#src/run/grpc-channels.ts";

const channels = createGrpcChannels({ outputBytesMax: 1_024, idleChannelsMax: 2 });
afterEach(() => channels.close());

const lend = (host: string, tls = false) => channels.lend({ target: `${host}.example:9001`, tls });
const isClosed = ({ client }: LentChannel) =>
  client.getChannel().getConnectivityState(false) === connectivityState.SHUTDOWN;

test("a target has one channel in the clear and one with TLS", () => {
  const lent = [lend("a"), lend("a"), lend("a", true)];
  expect(lent[0]!.client).toBe(lent[1]!.client);
  expect(lent[0]!.client).not.toBe(lent[2]!.client);
  for (const channel of lent) channel.giveBack();
});

test("a host is a host, also where gRPC knows a scheme of that name", () => {
  const lent = channels.lend({ target: "unix:9001", tls: false });
  expect(lent.client.getChannel().getTarget()).toBe("dns:unix:9001");
  lent.giveBack();
});

test("of more unused channels than are kept, the one used longest ago is closed", () => {
  const [a, b, c] = [lend("a"), lend("b"), lend("c")];
  for (const channel of [b, a, c]) channel.giveBack();
  expect([a, b, c].map(isClosed)).toEqual([true, false, false]);

  const again = lend("b");
  const d = lend("d");
  expect(again.client).toBe(b.client);
  again.giveBack();
  d.giveBack();
  expect([b, c, d].map(isClosed)).toEqual([false, true, false]);
});

test("a channel in use is never closed, however many there are", () => {
  const lent = ["a", "b", "c", "d"].map((host) => lend(host));
  lend("e").giveBack();
  expect(lent.map(isClosed)).toEqual([false, false, false, false]);
  for (const channel of lent) channel.giveBack();
  expect(lent.map(isClosed)).toEqual([true, true, true, false]);
});

test("a retired channel serves the runs it has, is lent no more, and closes after the last", () => {
  const [one, other] = [lend("a"), lend("a")];
  one.retire();
  one.giveBack();
  const next = lend("a");
  expect(next.client).not.toBe(other.client);
  expect(isClosed(other)).toBe(false);
  other.retire();
  other.giveBack();
  expect(isClosed(other)).toBe(true);
  expect(lend("a").client).toBe(next.client);
});
