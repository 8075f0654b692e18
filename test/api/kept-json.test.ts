import { randomBytes, randomUUID } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import type { Stores } from "#src/store/stores.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { type Keyrun, startKeyrun } from "../harness/keyrun.ts";
import { storeOfTier } from "../harness/mongo-databases.ts";
import { type BackgroundCaller, backgroundCallers } from "./background-callers.ts";

const folders = tempFolders();
const appId = "echo";
const secret = randomBytes(32).toString("base64url");
const input = { city: "Oslo", days: [1, { high: 2.5, low: null }] };

describe.each(storeOfTier())("with %s", (_, settings) => {
  let keyrun: Keyrun;
  let stores: Stores;
  beforeAll(async () => {
    const onStores = (opened: Stores) => (stores = opened);
    keyrun = await startKeyrun({ settings: settings(), onStores });
  });
  afterAll(() => keyrun.close());

  describe.each(Object.entries(backgroundCallers))("the JSON of a run over %s", (_name, make) => {
    let caller: BackgroundCaller;
    let teamId = "";
    beforeAll(async () => {
      const key = await keyrun.newKey(await keyrun.newTeam(Plan.ENTERPRISE));
      ({ teamId } = key);
      caller = make(keyrun.publicUrl, key.value);
    });

    test("is one for its Idempotency-Key, in whichever order its members are sent", async () => {
      const key = randomUUID();
      const { run: first } = await caller.run({ appId, input, key });
      expect(first?.output).toEqual(input);
      const reordered = { days: [1.0, { low: null, high: 25e-1 }], city: "Oslo" };
      const repeat = await caller.run({ appId, input: reordered, key });
      expect(repeat.run).toEqual(first);
      expect(repeat.headers.get("idempotency-replayed")).toBe("true");
      const others = [{ input: { ...input, city: "Bergen" } }, { input, text: "" }, { text: "" }];
      for (const other of others) {
        expect((await caller.run({ appId, key, ...other })).reason).toBe("IDEMPOTENCY_KEY_REUSED");
      }
    });

    test("is read of a run in the background, by its key, and is in no list", async () => {
      const order = { appId, text: "hello", input, key: randomUUID() };
      const { run } = await caller.start({ ...order, waitMs: 50_000 });
      const ended = { text: "hello", output: input };
      const runId = run!.runId!;
      expect((await caller.get(runId, 50_000)).run).toMatchObject({ ...ended, state: "RUN_STATE_SUCCEEDED" });
      expect((await caller.cancel(runId)).run).toMatchObject(ended);
      expect((await caller.run(order)).run).toMatchObject({ runId, ...ended });
      const [listed] = (await caller.list()).runs.filter((each) => each.runId === runId);
      expect(listed).toMatchObject({ state: "RUN_STATE_SUCCEEDED" });
      expect(listed).not.toHaveProperty("output");
      expect(listed).not.toHaveProperty("text");
    });

    test("leaves out a text that there was not, and comes back with every name", async () => {
      const data: JsonObject = JSON.parse('{"constructor":2,"":3,"a.b":{"toString":null}}');
      const { run } = await caller.start({ appId, input: data, waitMs: 50_000 });
      const ended = (await caller.get(run!.runId!, 50_000)).run;
      expect(ended?.output).toEqual(data);
      expect(ended).not.toHaveProperty("text");
    });

    test("that is no longer kept is told to be dropped", async () => {
      const { run } = await caller.start({ appId, input, waitMs: 50_000 });
      const runId = run!.runId!;
      await caller.get(runId, 50_000);
      await stores.runs.dropTexts(teamId, { bytes: Number.MAX_SAFE_INTEGER, limit: 100 });
      const { run: now } = await caller.get(runId);
      expect(now).toMatchObject({ state: "RUN_STATE_SUCCEEDED", textDropped: true });
      expect(now).not.toHaveProperty("output");
    });
  });

  test("a repeat after a restart gets the same output", async () => {
    const own = { ...settings(), KEYRUN_DATA_DIR: folders.create(), KEYRUN_SECRET: secret };
    const first = await startKeyrun({ settings: own });
    const { value } = await first.newKey(await first.newTeam());
    const order = { appId, input, key: randomUUID() };
    const over = ({ publicUrl }: Keyrun) => backgroundCallers["REST over HTTP/1.1"]!(publicUrl, value);
    const { run } = await over(first)
      .run(order)
      .finally(() => first.close());
    const second = await startKeyrun({ settings: own });
    onTestFinished(() => second.close());
    expect((await over(second).run(order)).run).toEqual(run);
    expect(run?.output).toEqual(input);
  });
});
