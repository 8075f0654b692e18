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

test("bytes that are no message are the caller's fault, and no fault of ours", async () => {
  expect(await list({ "Content-Type": "application/proto" }, "[")).toEqual({
    status: 400,
    reasons: ["INVALID_ARGUMENT"],
  });
});

test.each([
  ["that is compressed without a name for it", [1, 0, 0, 0, 1, 0], "13", "MISSING_GRPC_ENCODING"],
  ["that can't be read", [0, 0, 0, 0, 1, 0x5b], "3", "INVALID_ARGUMENT"],
])("over gRPC-Web a message %s is refused as over gRPC", async (_, body, status, reason) => {
  const response = await fetch(`${keyrun.internalUrl}/keyrun.v1.KeyService/ListKeys`, {
    method: "POST",
    headers: {
      Authorization: `Bearer ${keyrun.serviceToken}`,
      "Content-Type": "application/grpc-web+proto",
    },
    body: Uint8Array.from(body),
  });
  const told = `${[...response.headers].map((pair) => pair.join(": ")).join("\n")}\n${await response.text()}`;
  expect(/grpc-status: *(\d+)/.exec(told)?.[1]).toBe(status);
  const details = /grpc-status-details-bin: *(\S+)/.exec(told)?.[1] ?? "";
  expect(Buffer.from(details, "base64").toString("latin1")).toContain(reason);
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
