import { expect, test } from "vitest";
import { fail } from "#src/refusal/refusal.ts";
import { closedAtEnd } from "../../harness/closed-at-end.ts";
import { startKeyrun } from "../../harness/keyrun.ts";
import { postConnect } from "../../harness/post-connect.ts";

let key = "";
let isFull = false;

const keyrun = closedAtEnd(
  await startKeyrun({
    settings: { KEYRUN_PLAN_LIMITS: "free=2" },
    onStores: (stores) => ({
      ...stores,
      keys: {
        ...stores.keys,
        insert: (...asked) => (isFull ? Promise.reject(fail("STORE_FULL")) : stores.keys.insert(...asked)),
      },
    }),
  }),
);
key = (await keyrun.newKey("demo")).value;
isFull = true;

async function refusalOf(response: Response) {
  const { code, details = [] } = (await response.json()) as {
    code: string;
    details?: { debug: { reason?: string } }[];
  };
  const { status, headers } = response;
  return {
    status,
    code,
    reason: details[0]?.debug.reason,
    retry: headers.get("x-should-retry"),
    after: headers.get("retry-after") ?? headers.get("retry-after-ms"),
  };
}

const lasting = { status: 429, code: "resource_exhausted", retry: "false", after: null };

test("over Connect a message that is too large is HTTP 429, and the answer says not to repeat it", async () => {
  for (const body of [`{"text":"${"x".repeat(1_100_000)}"}`, Buffer.alloc(1_100_000)]) {
    const headers = { "Content-Type": typeof body === "string" ? "application/json" : "application/proto" };
    const response = await postConnect(keyrun.internalUrl, "KeyService/ListKeys", {
      token: keyrun.serviceToken,
      body,
      headers,
    });
    expect(await refusalOf(response)).toEqual({ ...lasting, reason: undefined });
  }
});

test("over Connect a store that is full is HTTP 429, and the answer says not to repeat the request", async () => {
  const response = await postConnect(keyrun.internalUrl, "KeyService/CreateKey", {
    token: keyrun.serviceToken,
    body: '{"teamId":"demo"}',
  });
  expect(await refusalOf(response)).toEqual({ ...lasting, reason: "STORE_FULL" });
});

test("over Connect a team at its limit is HTTP 429 too, and the answer says when to repeat the request", async () => {
  const run = () =>
    postConnect(keyrun.publicUrl, "RunService/RunApp", { token: key, body: '{"appId":"echo","text":"x"}' });
  expect([(await run()).status, (await run()).status]).toEqual([200, 200]);
  expect(await refusalOf(await run())).toMatchObject({
    status: 429,
    reason: "RATE_LIMIT_EXCEEDED",
    retry: null,
    after: expect.stringMatching(/^\d+$/),
  });
});
