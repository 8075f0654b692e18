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
/** Keys in use at a time: their teams allow more than the machine can ask. */
const keysAtOnce = 40;

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
  const newKey = async (): Promise<IssuedKey> => {
    const key = await management.newKey(await management.newTeam(Plan.ENTERPRISE));
    order({ use: key.value });
    return key;
  };
  const keys: IssuedKey[] = [];
  while (keys.length < keysAtOnce) keys.push(await newKey());
  // Its code is compiled first.
  await until(seen, 6);
  seen.length = 0;
  const memory = [residentMemory(keyrun.pid).now];
  const okMs: number[] = [];
  for (const end = performance.now() + 1_000 * seconds; performance.now() < end; ) {
    const { teamId, id: keyId, value } = keys.shift()!;
    const askedMs = performance.now();
    await management.keys.revokeKey({ teamId, keyId });
    okMs.push(performance.now() - askedMs);
    order({ revoked: value });
    keys.push(await newKey());
    memory.push(residentMemory(keyrun.pid).now);
    await pause(250);
  }
  const sum = (name: Exclude<keyof GuardedSecond, "p99Ms">, some = seen) =>
    some.reduce((all, second) => all + second[name], 0);
  const p99Of = (some: readonly GuardedSecond[]) =>
    some.map(({ p99Ms }) => p99Ms).sort((a, b) => a - b)[Math.floor(some.length / 2)]!;
  const [first, last] = [seen.slice(0, seen.length / 2), seen.slice(seen.length / 2)];
  figure("guarded requests that passed", sum("accepted"));
  figure("a second", Math.round((processes * sum("accepted")) / seen.length));
  figure("p99 of the first half", p99Of(first), "ms");
  figure("p99 of the second half", p99Of(last), "ms");
  figure("resident at first", memory[0]!, "MB");
  figure("at the end", memory.at(-1)!, "MB");
  figure("keys revoked", okMs.length);
  figure("requests sent after the OK", sum("refused") + sum("wrong"));
  figure("of them passed", sum("wrong"));
  figure("answers 503 of a late event loop", sum("unavailable"));
  timeFigures("a revocation amid them", okMs);
  expect({ wrong: sum("wrong"), other: sum("other") }).toEqual({ wrong: 0, other: 0 });
  expect(sum("refused")).toBeGreaterThan(okMs.length);
  expect(memory.at(-1)).toBeLessThan(memory[0]! + 60);
  expect(p99Of(last)).toBeLessThan(3 * p99Of(first) + 20);
});

async function until(seen: readonly unknown[], count: number): Promise<void> {
  await expect.poll(() => seen.length).toBeGreaterThanOrEqual(count);
}
