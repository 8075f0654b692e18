import { type ChildProcess, fork } from "node:child_process";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, expect, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import type { GuardedSecond, GuardOrder } from "../harness/attackers/guarded-requests.ts";
import { campaignSize, figure, timeFigures } from "../harness/campaigns.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { makeGuarded } from "../harness/fleet-caller.ts";
import { type IssuedKey, manage } from "../harness/keyrun.ts";
import { serveKeyrun } from "../harness/keyrun-process.ts";
import { residentMemory } from "../harness/resident-memory.ts";

const seconds = campaignSize("guards");
const processes = 2;
const connections = 16;
/** Two keys of each are in use at a time. Together they allow more than the machine can ask. */
const teams = 20;

const folders = tempFolders();
const keyrun = await serveKeyrun(folders.create(), { KEYRUN_PLAN_LIMITS: "enterprise=100000" });
const management = manage(keyrun.internalUrl, keyrun.serviceToken());
await makeGuarded(management);

const callers: ChildProcess[] = [];

afterAll(async () => {
  for (const caller of callers) caller.kill("SIGKILL");
  management.disconnect();
  keyrun.kill("SIGKILL");
  await keyrun.exited;
});

test(`in ${seconds} s of guarded requests from two processes, as fast as they are answered, none passes that is sent after its key's revocation, and memory and p99 stay`, {
  timeout: 180_000 + 10_000 * seconds,
}, async () => {
  const seen: GuardedSecond[] = [];
  const script = new URL("../harness/attackers/guarded-requests.ts", import.meta.url);
  const { port } = new URL(keyrun.publicUrl);
  for (let n = 0; n < processes; n += 1) {
    const caller = fork(script, [port, String(connections)], {
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    caller.on("message", (second) => void seen.push(second as GuardedSecond));
    callers.push(caller);
  }
  const order = (words: GuardOrder) => callers.forEach((caller) => void caller.send(words));
  const newKey = async (teamId: string): Promise<IssuedKey> => {
    const key = await management.newKey(teamId);
    order({ use: key.value });
    return key;
  };
  const keys: IssuedKey[] = [];
  for (let n = 0; n < teams; n += 1) {
    const teamId = await management.newTeam(Plan.ENTERPRISE);
    keys.push(await newKey(teamId), await newKey(teamId));
  }
  // Its code is compiled first.
  await until(seen, 6);
  seen.length = 0;
  const memory: number[] = [];
  const okMs: number[] = [];
  for (const end = performance.now() + 1_000 * seconds; performance.now() < end; ) {
    const { teamId, id: keyId, value } = keys.shift()!;
    const askedMs = performance.now();
    await management.keys.revokeKey({ teamId, keyId });
    okMs.push(performance.now() - askedMs);
    order({ revoked: value });
    keys.push(await newKey(teamId));
    memory.push(residentMemory(keyrun.pid).now);
    await pause(250);
  }
  const sum = (name: Exclude<keyof GuardedSecond, "p99Ms">, some = seen) =>
    some.reduce((all, second) => all + second[name], 0);
  const [first, last] = halves(seen.map(({ p99Ms }) => p99Ms));
  const [early, late] = halves(memory);
  figure("guarded requests that passed", sum("accepted"));
  figure("a second", Math.round((processes * sum("accepted")) / seen.length));
  figure("p99 of the first half", first, "ms");
  figure("p99 of the second half", last, "ms");
  figure("resident in the first half", early, "MB");
  figure("resident in the second half", late, "MB");
  figure("keys revoked", okMs.length);
  figure("requests sent after the OK", sum("refused") + sum("wrong"));
  figure("of them passed", sum("wrong"));
  figure("answers 503 of a late event loop", sum("unavailable"));
  timeFigures("a revocation amid them", okMs);
  expect({ wrong: sum("wrong"), other: sum("other") }).toEqual({ wrong: 0, other: 0 });
  expect(sum("refused")).toBeGreaterThan(okMs.length);
  expect(late).toBeLessThan(early + 40);
  expect(last).toBeLessThan(3 * first + 20);
});

/** The median of the first half, and of the second. */
function halves(values: readonly number[]): [number, number] {
  const median = (some: readonly number[]) => some.toSorted((a, b) => a - b)[Math.floor(some.length / 2)]!;
  const middle = values.length / 2;
  return [median(values.slice(0, middle)), median(values.slice(middle))];
}

async function until(seen: readonly unknown[], count: number): Promise<void> {
  await expect.poll(() => seen.length).toBeGreaterThanOrEqual(count);
}
