import { randomUUID } from "node:crypto";
import { MongoClient } from "mongodb";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { runCommand } from "../harness/command-line.ts";
import { describeFleet, type FleetHere, startFleet } from "../harness/fleet.ts";
import { instanceFactsOf } from "../harness/instance-facts.ts";

test("fleet asks for the database of one, and a data folder has none", async () => {
  expect(await runCommand(["fleet"])).toMatchObject({
    code: 1,
    stdout: "",
    stderr: expect.stringContaining("KEYRUN_MONGODB_URI"),
  });
});

describeFleet("here")("fleet", () => {
  let keyruns: FleetHere;
  beforeAll(async () => {
    keyruns = await startFleet({ in: "here" });
  });
  afterAll(() => keyruns?.close());

  const envOf = (uri = keyruns.members[0].config.mongodbUri) => ({
    KEYRUN_MONGODB_URI: uri,
    KEYRUN_SECRET: "s".repeat(43),
  });

  test("lists the instances with what each says of itself, and one that is silent", async () => {
    const client = await new MongoClient(keyruns.members[0].config.mongodbUri ?? "").connect();
    onTestFinished(() => client.close());
    const control = client.db().collection<{ _id: string }>("control");
    const gone = { n: 9, ack: 0, order: 99, facts: instanceFactsOf({ version: "0.0.1" }) };
    await control.updateOne({ _id: "control" }, { $set: { [`leases.${randomUUID()}`]: gone } });
    const { code, stdout } = await runCommand(["fleet", "--json"], { env: envOf() });
    expect(code).toBe(0);
    const { fleetId, instances } = JSON.parse(stdout);
    expect(fleetId).toMatch(/^[0-9a-f]{12}$/);
    const addresses = [keyruns.members[0], keyruns.members[1]].map(({ config }) => config.advertiseAddress);
    const redisMark = instances[0]?.redisMark;
    expect(redisMark).toMatch(/^[0-9a-f]{8}$/);
    const live = { version: "0.0.0-test", state: "live", limitMode: "shared", share: null, redisMark };
    expect(instances).toMatchObject([
      { ...live, address: addresses[0] },
      { ...live, address: addresses[1] },
      { address: "10.0.0.1:8081", version: "0.0.1", state: "silent", limitMode: null, redisMark: null },
    ]);
    for (const { leaseLeftMs } of instances.slice(0, 2)) expect(leaseLeftMs).toBeGreaterThan(0);
    expect(instances[2].leaseLeftMs).toBeLessThan(instances[0].leaseLeftMs);
    const table = await runCommand(["fleet"], { env: envOf() });
    expect(table.stdout).toMatch(
      new RegExp(
        `ADDRESS +VERSION +STATE +LEASE LEFT +SHARE +LIMITS +REDIS\\n${addresses[0]} +0\\.0\\.0-test`,
      ),
    );
  });

  test("says where there is none", async () => {
    const empty = keyruns.members[0].config.mongodbUri?.replace(/(?<=\/[^/?]+)(?=\?|$)/, "-none");
    expect(await runCommand(["fleet"], { env: envOf(empty) })).toEqual({
      code: 0,
      stdout: "",
      stderr: "No instance of a fleet serves the database.\n",
    });
  });
});
