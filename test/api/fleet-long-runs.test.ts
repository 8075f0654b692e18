import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeFleet, type FleetHere, startFleet } from "../harness/fleet.ts";
import { registerOlderInstance } from "../harness/older-instance.ts";

describeFleet("here")("long runs in a fleet", () => {
  let fleet: FleetHere;
  beforeAll(async () => {
    fleet = await startFleet({ in: "here", each: [{}, {}] });
  });
  afterAll(() => fleet.close());

  test("while an older instance serves too, no app gets a longer time, and nothing is written", async () => {
    const { apps } = fleet.members[0];
    const app = { id: "late", backend: { kind: { case: "echo", value: {} } } } as const;
    const longer = durationFromMs(590_000);
    await apps.createApp({ app });
    const older = await registerOlderInstance(fleet.members[0], { schema: 12 });
    const updateWith = (path: string) =>
      apps.updateApp({
        app: { ...app, timeout: longer, backgroundTimeout: longer },
        updateMask: { paths: [path] },
      });
    const calls = [
      () => updateWith("timeout"),
      () => updateWith("background_timeout"),
      () => apps.createApp({ app: { ...app, id: "later", timeout: longer } }),
      () => apps.createApp({ app: { ...app, id: "later", backgroundTimeout: longer } }),
    ];
    const codeOf = async () => ConnectError.from(await calls[0]!().catch((thrown) => thrown)).code;
    await expect.poll(codeOf).toBe(Code.FailedPrecondition);
    const { apps: before } = await apps.listApps({});
    for (const call of calls) await expect(call()).rejects.toThrow(/older Keyrun/);
    expect((await apps.listApps({})).apps).toEqual(before);
    await older.leave();
    await expect
      .poll(async () => (await calls[1]!().catch(() => undefined))?.app?.backgroundTimeout)
      .toEqual(longer);
  });
});
