import { once } from "node:events";
import { request } from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";

let keyrun: Keyrun;

beforeAll(async () => {
  keyrun = await startKeyrun();
});

afterAll(() => keyrun.close());

test("an RPC's caller that sends Expect: 100-continue gets 100 Continue, and then its answer", async () => {
  const call = request(`${keyrun.internalUrl}/keyrun.v1.KeyService/ListKeys`, {
    method: "POST",
    headers: {
      Authorization: `Bearer ${keyrun.serviceToken}`,
      "Content-Type": "application/json",
      "Connect-Protocol-Version": "1",
      Expect: "100-continue",
    },
  });
  call.flushHeaders();
  await once(call, "continue");
  call.end(JSON.stringify({ teamId: "demo" }));
  const [answer] = await once(call, "response");
  answer.resume();
  expect(answer.statusCode).toBe(200);
});
