import { afterAll, beforeAll, expect, test } from "vitest";
import { type Keyrun, startKeyrun } from "../../harness/keyrun.ts";

let keyrun: Keyrun;
let key = "";

beforeAll(async () => {
  keyrun = await startKeyrun();
  key = (await keyrun.newKey("demo")).value;
});

afterAll(() => keyrun.close());

function runPlainly(url: string, version?: string) {
  return fetch(`${url}/keyrun.v1.RunService/RunApp`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${key}`,
      "content-type": "application/json",
      ...(version !== undefined && { "connect-protocol-version": version }),
    },
    body: '{"appId":"echo","text":"plain"}',
  });
}

test("the internal listener takes JSON without Connect-Protocol-Version, as curl sends it", async () => {
  const response = await runPlainly(keyrun.internalUrl);
  expect(response.status).toBe(200);
  expect(await response.json()).toMatchObject({ appId: "echo", text: "plain" });
});

test("the public listener asks for Connect-Protocol-Version, and with it takes the same request", async () => {
  const response = await runPlainly(keyrun.publicUrl);
  expect(response.status).toBe(400);
  expect(await response.json()).toMatchObject({
    code: "invalid_argument",
    message: expect.stringMatching(/connect-protocol-version/i),
  });
  expect((await runPlainly(keyrun.publicUrl, "1")).status).toBe(200);
});
