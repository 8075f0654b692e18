import { afterAll, beforeAll, expect, test } from "vitest";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";

let keyrun: Keyrun;

beforeAll(async () => {
  keyrun = await startKeyrun();
});

afterAll(() => keyrun.close());

async function list(headers: Record<string, string>, body: string) {
  const response = await fetch(`${keyrun.internalUrl}/keyrun.v1.KeyService/ListKeys`, {
    method: "POST",
    headers: {
      Authorization: `Bearer ${keyrun.serviceToken}`,
      "Content-Type": "application/json",
      "Connect-Protocol-Version": "1",
      ...headers,
    },
    body,
  });
  const { details = [] } = (await response.json()) as {
    details?: { type: string; debug?: { reason?: string } }[];
  };
  const info = details.filter(({ type }) => type === "google.rpc.ErrorInfo");
  return { status: response.status, reasons: info.map(({ debug }) => debug?.reason) };
}

test.each([
  ["a body that is not JSON", {}, "{"],
  ["a field that nobody knows", {}, '{"teamId":"demo","colour":"red"}'],
  ["a field of another type", {}, '{"teamId":7}'],
])("%s is refused with one ErrorInfo, although Connect refuses it by itself", async (_, headers, body) => {
  expect(await list(headers, body)).toEqual({ status: 400, reasons: ["INVALID_ARGUMENT"] });
});

test("a compression that nobody knows is refused with one ErrorInfo", async () => {
  const { reasons } = await list({ "Content-Encoding": "zip" }, "{}");
  expect(reasons).toEqual(["UNIMPLEMENTED"]);
});

test("what Connect refuses is counted by its reason", async () => {
  const series = 'keyrun_requests_total{door="rpc",outcome="INVALID_ARGUMENT",status="400"}';
  const before = await keyrun.metric(series);
  await list({}, "{");
  expect(await keyrun.metric(series)).toBe(before + 1);
});
