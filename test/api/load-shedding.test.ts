import type { DescMethod } from "@bufbuild/protobuf";
import { beforeEach, expect, test } from "vitest";
import { Health } from "#gen/grpc/health/v1/health_pb.ts";
import { ServerReflection } from "#gen/grpc/reflection/v1/reflection_pb.ts";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { FleetService } from "#gen/keyrun/v1/fleet_service_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { restRunOnce, statusOf } from "../harness/keyrun-process.ts";

const services = [
  ...[RunService, KeyService, TeamService, AppService, SessionService, FleetService],
  ...[Health, ServerReflection],
];
const shedMethods = [...RunService.methods.map(({ name }) => name), "VerifyKey"];

let overloaded = false;
/** The address by which each request was counted; undefined for a service that is known. */
const asked: (string | undefined)[] = [];

const keyrun = closedAtEnd(
  await startKeyrun({
    load: {
      sheds: (address) => {
        asked.push(address);
        return overloaded;
      },
    },
  }),
);
beforeEach(() => {
  asked.length = 0;
  overloaded = false;
});

/** Calls the method over Connect, and returns the beginning of the answer. */
async function beginningOf(method: DescMethod): Promise<string> {
  const isUnary = method.methodKind === "unary";
  const ending = new AbortController();
  const answer = await fetch(`${keyrun.internalUrl}/${method.parent.typeName}/${method.name}`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${method.parent === FleetService ? keyrun.instanceToken : keyrun.serviceToken}`,
      "content-type": isUnary ? "application/json" : "application/connect+json",
      "connect-protocol-version": "1",
    },
    body: isUnary ? "{}" : "\0\0\0\0\x02{}",
    signal: ending.signal,
  });
  const first = await answer.body?.getReader().read();
  ending.abort();
  return `${answer.status} ${Buffer.from(first?.value ?? []).toString("latin1")}`;
}

const methods = services.flatMap((service) => service.methods);

test.each(methods.map((method) => [`${method.parent.name}.${method.name}`, method] as const))(
  "what an API key calls is shed, and VerifyKey, and nothing that takes a right away: %s",
  async (_, method) => {
    overloaded = true;
    const isShed = (await beginningOf(method)).includes("OVERLOADED");
    expect(isShed).toBe(shedMethods.includes(method.name));
  },
);

test("VerifyKey is counted without its address, but only with the right token, and a run with it", async () => {
  const verify = async (token: string) => {
    const answer = await fetch(`${keyrun.internalUrl}/keyrun.v1.KeyService/VerifyKey`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ value: keyrun.unknownKey() }),
    });
    await answer.text();
    return answer.status;
  };
  expect(await verify(keyrun.serviceToken)).toBe(200);
  expect(asked).toEqual([undefined]);
  overloaded = true;
  expect(await verify(keyrun.serviceToken)).toBe(503);
  expect(asked).toEqual([undefined, undefined]);
  // It costs a hash, no more than a refusal.
  expect(await verify(keyrun.unknownKey())).toBe(401);
  expect(asked).toEqual([undefined, undefined]);
  expect((await restRunOnce(keyrun.publicUrl, { value: keyrun.serviceToken })).status).toBe(503);
  expect(asked.slice(2)).toEqual(["127.0.0.1"]);
});

test("a key can be revoked while runs are shed, and is refused from the next one that is served", async () => {
  const key = await keyrun.newKey(await keyrun.newTeam());
  expect((await restRunOnce(keyrun.publicUrl, key)).status).toBe(200);
  overloaded = true;
  expect((await restRunOnce(keyrun.publicUrl, key)).status).toBe(503);
  await keyrun.keys.revokeKey({ teamId: key.teamId, keyId: key.id });
  expect((await restRunOnce(keyrun.publicUrl, key)).status).toBe(503);
  overloaded = false;
  expect(JSON.parse((await restRunOnce(keyrun.publicUrl, key)).body).error.code).toBe("revoked_api_key");
});

test("probes, metrics and the API's description are answered while runs are shed", async () => {
  overloaded = true;
  for (const path of ["/healthz", "/readyz", "/openapi.json"]) {
    expect([path, await statusOf(`${keyrun.publicUrl}${path}`)]).toEqual([path, 200]);
  }
  expect(await keyrun.metric("keyrun_sheds_total")).toBeGreaterThanOrEqual(0);
});

test("a request that is shed costs its team nothing, is looked up nowhere, and is counted", async () => {
  const key = await keyrun.newKey(await keyrun.newTeam());
  const reads = () => keyrun.metric('keyrun_store_reads_total{entity="key"}');
  const sheds = () => keyrun.metric("keyrun_sheds_total");
  const [readsBefore, shedsBefore] = [await reads(), await sheds()];
  overloaded = true;
  for (const value of [key.value, keyrun.unknownKey(), "wrong"]) {
    const { status, headers, body } = await restRunOnce(keyrun.publicUrl, { value });
    expect([status, JSON.parse(body).error.code, headers.get("retry-after")]).toEqual([
      503,
      "overloaded",
      "1",
    ]);
    expect(headers.get("x-should-retry")).toBeNull();
  }
  expect((await sheds()) - shedsBefore).toBe(3);
  expect(await reads()).toBe(readsBefore);
  overloaded = false;
  const { headers } = await restRunOnce(keyrun.publicUrl, key);
  const [limit, remaining] = ["limit", "remaining"].map((name) => Number(headers.get(`ratelimit-${name}`)));
  expect(remaining).toBe((limit ?? 0) - 1);
});
