import { once } from "node:events";
import { expect, test } from "vitest";
import { reachBackend } from "#src/run/reach-app.ts";
import { serveTcp } from "../harness/app-backends.ts";

const hosts = { find: async () => [{ address: "127.0.0.1", family: 4 }], close: () => {} };

test.each(["a..b", "_dns_.host", "1.2.3.400"])(
  "the server of a gRPC app is reached by a name that no URL may have: %s",
  async (name) => {
    await using server = await serveTcp(() => {});
    await reachBackend({ kind: "grpc", target: `${name}:${server.port}`, tls: false }, hosts);
  },
);

test("a server with TLS is told the name that is asked for, as in a run", async () => {
  const asked = Promise.withResolvers<Buffer>();
  await using server = await serveTcp(async (socket) => {
    const [hello] = await once(socket, "data");
    asked.resolve(hello);
    socket.destroy();
  });
  const url = `https://app.example:${server.port}/run`;
  const reached = reachBackend({ kind: "http", url, headers: [] }, hosts);
  await expect(reached).rejects.toMatchObject({ reason: "APP_UNREACHABLE" });
  expect((await asked.promise).includes("app.example")).toBe(true);
});
