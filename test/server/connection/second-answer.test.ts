import { expect, onTestFinished, test } from "vitest";
import { Health } from "#gen/grpc/health/v1/health_pb.ts";
import type { HttpHandler } from "#src/http/handler.ts";
import { fail } from "#src/refusal/refusal.ts";
import { type RawSocket, rawSocket } from "../../harness/raw-socket.ts";
import { serveRpcs } from "../../harness/rpc-listener.ts";
import { type ServedHandler, serveForTest } from "../../harness/served-handler.ts";

/** The time for a whole request ends long before the rest of a refused body is cut off. */
const limits = { headersMsMax: 300, requestMsMax: 300, checkIntervalMs: 50, drainedBodyMsMax: 20_000 };
const announced = "Content-Length: 100\r\n\r\n";
const chunked = "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n";

const refuse: HttpHandler = () => ({ refusal: fail("MISSING_API_KEY") });
const refuseAfterReading: HttpHandler = async (request) => {
  const body = await request.readBody(0);
  return { refusal: body.kind === "too_large" ? fail("REQUEST_TOO_LARGE") : fail("INTERNAL") };
};
const handlers = { "at once": refuse, "after a part of its body": refuseAfterReading };
const check = async () => {
  throw fail("MISSING_CREDENTIAL");
};

/** A server that refuses requests in one way, and the beginning of such a request. */
const servers: Readonly<Record<string, () => Promise<{ served: ServedHandler; head: string }>>> = {
  ...Object.fromEntries(
    Object.entries(handlers).map(([when, handler]) => [
      `REST ${when}`,
      async () => ({
        served: await serveForTest(handler, { limits }),
        head: "POST /a HTTP/1.1\r\nHost: a\r\n",
      }),
    ]),
  ),
  ...Object.fromEntries(
    ["application/json", "application/grpc-web"].map((type) => [
      `an RPC by ${type}`,
      async () => {
        const served = await serveRpcs([{ service: Health, implementation: { check } }], { limits });
        onTestFinished(() => served.listener.destroy());
        const rpc =
          "POST /grpc.health.v1.Health/Check?a HTTP/1.1\r\nHost: a\r\nConnect-Protocol-Version: 2\r\n";
        return {
          served,
          head: `${rpc}Content-Type: ${type}\r\nContent-Encoding: no\r\ngrpc-encoding: no\r\n`,
        };
      },
    ]),
  ),
};

const names = Object.keys(servers);

function answers(client: RawSocket): number {
  return client.heard().split("HTTP/1.1 ").length - 1;
}

test.each(names.flatMap((name) => [announced, chunked].map((begin) => [name, begin] as const)))(
  "a request that is refused by %s gets no second answer when the rest of its body is late: %j",
  async (name, begin) => {
    const { served, head } = await servers[name]!();
    const client = rawSocket({ port: served.port });
    client.send(`${head}${begin}`);
    await client.closed();
    expect(answers(client)).toBe(1);
    expect(client.heard()).not.toContain("408");
    expect(served.refusals).toHaveLength(1);
  },
);

test.each(names)(
  "a request that is refused by %s gets no second answer for rubbish behind it",
  async (name) => {
    const { served, head } = await servers[name]!();
    const client = rawSocket({ port: served.port });
    client.send(`${head}${chunked}`);
    await client.until(() => answers(client) === 1);
    client.send("rubbish\r\n");
    await client.closed();
    expect(answers(client)).toBe(1);
    expect(served.refusals).toHaveLength(1);
  },
);

test.each(names)("the next request after one refused by %s is judged by itself", async (name) => {
  const { served, head } = await servers[name]!();
  const client = rawSocket({ port: served.port });
  client.send(`${head}Content-Length: 1\r\n\r\n{`);
  await client.until(() => answers(client) === 1);
  client.send("rubbish\r\n\r\n");
  await client.closed();
  expect(answers(client)).toBe(2);
  expect(client.heard()).toContain("HTTP/1.1 400");
});
