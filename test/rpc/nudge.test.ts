import { randomBytes } from "node:crypto";
import { createServer } from "node:http2";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { connectNodeAdapter, createConnectTransport } from "@connectrpc/connect-node";
import { expect, onTestFinished, test } from "vitest";
import { FleetService } from "#gen/keyrun/v1/fleet_service_pb.ts";
import { createInstanceTokens } from "#src/auth/instance-tokens.ts";
import { createServiceSecrets } from "#src/keys/service-secrets.ts";
import { createNudge } from "#src/rpc/nudge.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun, withAuthorization } from "../harness/keyrun.ts";

const keyrun = closedAtEnd(await startKeyrun());

const [first, second, other] = [randomBytes(32), randomBytes(32), randomBytes(32)];

test("while the service secret changes, the instances know each other by any secret that both have", () => {
  const tokensOf = (...secrets: Buffer[]) => createInstanceTokens(createServiceSecrets(secrets));
  const before = tokensOf(first, second);
  const after = tokensOf(second, first);
  expect(before.isOne(after.own)).toBe(true);
  expect(after.isOne(before.own)).toBe(true);
  expect(tokensOf(other).isOne(after.own)).toBe(false);
  expect(after.isOne(tokensOf(other).own)).toBe(false);
});

test("an instance alone says that it is in no fleet", async () => {
  const transport = createConnectTransport({
    baseUrl: keyrun.internalUrl,
    httpVersion: "2",
    interceptors: [withAuthorization(`Bearer ${keyrun.instanceToken}`)],
  });
  const refused = await createClient(FleetService, transport)
    .nudge({})
    .catch((thrown: unknown) => ConnectError.from(thrown).code);
  expect(refused).toBe(Code.Unimplemented);
});

test("many nudges at once reach an instance at least once after the last, and never pile up", async () => {
  let nudges = 0;
  const answers: (() => void)[] = [];
  const instance = await serveNudges(async () => {
    nudges += 1;
    await new Promise<void>((resolve) => answers.push(resolve));
  });
  const { nudge, failed } = nudgeAndFailures();
  for (let sent = 0; sent < 100; sent++) nudge.send([instance]);
  await expect.poll(() => nudges).toBe(1);
  answers.shift()?.();
  await expect.poll(() => nudges).toBe(2);
  answers.shift()?.();
  nudge.send([instance]);
  await expect.poll(() => nudges).toBe(3);
  answers.shift()?.();
  expect(failed).toEqual([]);
});

test("an instance that is gone is reported, and holds no other up", async () => {
  let nudges = 0;
  const instance = await serveNudges(async () => {
    nudges += 1;
  });
  const { nudge, failed } = nudgeAndFailures();
  nudge.send(["127.0.0.1:1", instance]);
  await expect.poll(() => nudges).toBe(1);
  await expect.poll(() => failed).toEqual(["127.0.0.1:1"]);
});

function nudgeAndFailures() {
  const failed: string[] = [];
  const onFailed = (address: string) => void failed.push(address);
  return { failed, nudge: createNudge({ token: "t", tls: () => undefined, msMax: 5_000, onFailed }) };
}

async function serveNudges(onNudge: () => Promise<void>): Promise<string> {
  const server = createServer(
    connectNodeAdapter({
      routes: (router) =>
        router.service(FleetService, {
          async nudge() {
            await onNudge();
            return {};
          },
        }),
    }),
  );
  const sessions = new Set<{ destroy(): void }>();
  server.on("session", (session) => void sessions.add(session));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const session of sessions) session.destroy();
    server.close();
  });
  const address = server.address();
  return `127.0.0.1:${typeof address === "object" && address ? address.port : 0}`;
}
