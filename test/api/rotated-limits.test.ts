import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { afterAll, expect, test } from "vitest";
import { UsageStep, VerifyKeyResponse_Verdict as Verdict } from "#gen/keyrun/v1/key_service_pb.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { type IssuedKey, startKeyrun } from "../harness/keyrun.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { everyCaller } from "./every-caller.ts";

const clock = createManualClock();

const keyrun = closedAtEnd(await startKeyrun({ clock }));
const callers = Object.values(everyCaller).map((make) => make(keyrun.publicUrl));
afterAll(async () => {
  for (const caller of callers) caller.close();
});

const newKey = async (requestsPerMinute: number) =>
  keyrun.newKey(await keyrun.newTeam(), { requestsPerMinute });

async function rotate({ id: keyId, teamId }: IssuedKey, overlapMs: number): Promise<IssuedKey> {
  const { key, value } = await keyrun.keys.rotateKey({ teamId, keyId, overlap: durationFromMs(overlapMs) });
  return { id: key?.id ?? "", teamId, value };
}

/** What the answer to a run tells of the limits. */
async function run({ value }: IssuedKey, caller = callers[0]!) {
  const { kind, headers } = await caller.run({
    appId: "echo",
    text: "x",
    authorization: `Bearer ${value}`,
  });
  const [remaining, wait] = ["ratelimit-remaining", "retry-after"].map((name) => headers.get(name));
  return { kind, remaining, wait, list: headers.get("ratelimit") };
}

test("a key and its successor have one limit during an overlap, and the headers of both tell what is left of it", async () => {
  const old = await newKey(callers.length + 1);
  for (const caller of callers) expect((await run(old, caller)).kind).toBe("ok");
  const next = await rotate(old, 30_000);
  clock.advance(10_000);
  expect(await run(next)).toEqual({
    ...{ kind: "ok", remaining: "0", wait: null },
    list: `"team";r=${60 - callers.length - 1};t=50, "key";r=0;t=50`,
  });
  for (const caller of callers) {
    for (const key of [old, next]) {
      expect(await run(key, caller)).toMatchObject({ kind: "refused", remaining: "0", wait: "50" });
    }
  }
  clock.advance(49_999);
  expect((await run(next)).kind).toBe("refused");
  clock.advance(1);
  expect((await run(next)).kind).toBe("ok");
});

test("ten rotations in a minute, with an overlap and without, give a key no request more, nor does VerifyKey", async () => {
  let key = await newKey(2);
  const keys = [key];
  const kinds: string[] = [];
  for (let n = 0; n <= 10; n++) {
    for (let times = 0; times < 2; times++) kinds.push((await run(key)).kind);
    if (n === 10) break;
    key = await rotate(key, n === 0 ? 1_000 : 0);
    keys.push(key);
    clock.advance(1_000);
  }
  expect(kinds.filter((kind) => kind === "ok")).toHaveLength(2);
  expect(await keyrun.keys.verifyKey({ value: key.value })).toMatchObject({
    ...{ verdict: Verdict.RATE_LIMITED, keyId: key.id },
    rateLimit: { limit: 2, remaining: 0, retryAfter: { seconds: 50n } },
  });
  // Usage is told by key.
  const used = async ({ teamId, id: keyId }: IssuedKey) => {
    const { points } = await keyrun.keys.getUsage({ teamId, keyId, step: UsageStep.HOUR });
    const sum = (name: "acceptedCount" | "limitedCount") =>
      Number(points.reduce((all, point) => all + point[name], 0n));
    return [sum("acceptedCount"), sum("limitedCount")];
  };
  const ofLater = Array.from({ length: 9 }, () => [0, 2]);
  expect(await Promise.all(keys.map(used))).toEqual([[2, 0], ...ofLater, [0, 3]]);
  clock.advance(50_000);
  expect([(await run(key)).kind, (await run(key)).kind, (await run(key)).kind]).toEqual([
    ...["ok", "ok", "refused"],
  ]);
});

test("two keys of a team that no rotation connects have a limit each", async () => {
  const one = await newKey(1);
  const other = await keyrun.newKey(one.teamId, { requestsPerMinute: 1 });
  await rotate(one, 30_000);
  expect([(await run(one)).kind, (await run(other)).kind]).toEqual(["ok", "ok"]);
});
