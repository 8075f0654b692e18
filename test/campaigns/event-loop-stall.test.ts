import { Agent, request } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { figure } from "../harness/campaigns.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { type Answer, type FleetEntry, fleetEntries, openFleetCaller } from "../harness/fleet-caller.ts";
import { manage, readMetric } from "../harness/keyrun.ts";
import { serveKeyrun, statusOf } from "../harness/keyrun-process.ts";
import { stallOnSignal } from "../harness/stall-on-signal.ts";

const stallMsMin = 2_000;
/** More than the requests of an address that are served although the loop was late. */
const atOnce = 400;

const folders = tempFolders();
const stalling = stallOnSignal(folders.create());

const metric = (series: string) => readMetric(keyrun.internalUrl, keyrun.serviceToken(), series);
const sheds = () => metric("keyrun_sheds_total");
const isShed = ({ outcome, headers, body }: Answer) =>
  outcome === "unavailable" && /overloaded|more to do/i.test(`${headers["grpc-message"]} ${body}`);

/** What is sent lies in the sockets of the process, which stands still for 2 s. */
async function whileStalled<Result>(send: () => Promise<Result>): Promise<Result> {
  const { answers } = await stalling.hold(keyrun, stallMsMin, async () => ({ answers: send() }));
  return answers;
}

const usesAtOnce = (entry: FleetEntry, count: number) =>
  Promise.all(Array.from({ length: count }, () => caller.use(entry, value)));

async function newKey() {
  return await management.newKey(await management.newTeam());
}

const keyrun = await serveKeyrun(folders.create(), { KEYRUN_PLAN_LIMITS: "free=100000" }, stalling.command);
const { publicUrl, internalUrl } = keyrun;
const management = manage(internalUrl, keyrun.serviceToken());
const { value } = await newKey();
const caller = openFleetCaller(
  { publicUrl, internalUrl, serviceToken: keyrun.serviceToken() },
  { connectionsMax: atOnce, sessions: 8 },
);
// Opens the connections: what is sent on them during the stall lies in their sockets.
for (const entry of fleetEntries) await usesAtOnce(entry, 100);

// For half a second after the stall of the test before, runs may still be shed.
beforeEach(async () => {
  const outcome = async () => (await caller.use("rest", value)).outcome;
  await expect.poll(outcome, { interval: 700 }).toBe("accepted");
});

afterAll(async () => {
  caller?.close();
  management?.disconnect();
  keyrun?.kill("SIGKILL");
  await keyrun?.exited;
});

describe("an event loop that stood still for 2 s", () => {
  test.each(fleetEntries.filter((entry) => entry !== "verify"))(
    "sheds what waited for it (%s), and serves all again soon",
    async (entry) => {
      const before = await sheds();
      const answers = await whileStalled(() => usesAtOnce(entry, atOnce));
      // One after the other, until nothing was refused for half a second.
      const overMs = performance.now();
      let troubleMs = overMs;
      while (performance.now() - troubleMs < 500) {
        const answer = await caller.use(entry, value);
        answers.push(answer);
        if (answer.outcome !== "accepted") troubleMs = performance.now();
      }
      const shed = answers.filter(isShed);
      figure(`${entry}: requests`, answers.length);
      figure(`${entry}: shed`, shed.length);
      figure(`${entry}: back after`, troubleMs - overMs, "ms");
      expect(shed.length).toBeGreaterThan(0);
      const wrong = answers.filter((answer) => answer.outcome !== "accepted" && !isShed(answer));
      expect(wrong).toEqual([]);
      for (const { headers } of shed) expect(headers["retry-after"]).toBe("1");
      expect((await sheds()) - before).toBe(shed.length);
      await expect.poll(async () => (await usesAtOnce(entry, 100)).every(isAccepted)).toBe(true);
    },
  );

  test("goes on verifying keys for a service that is known, although all its calls come from one address", async () => {
    const both = () => Promise.all([usesAtOnce("rest", atOnce), usesAtOnce("verify", atOnce)]);
    // Opens the connections.
    await both();
    const [runs, calls] = await whileStalled(both);
    figure("runs of one address shed", runs.filter(isShed).length);
    figure("calls of VerifyKey of one address shed", calls.filter(isShed).length);
    // Both came from one address, and only the runs are counted by it.
    expect(runs.filter(isShed).length).toBeGreaterThan(0);
    expect(calls.filter(isAccepted).length).toBeGreaterThan(atOnce / 2);
    expect(calls.filter((answer) => !isAccepted(answer) && !isShed(answer))).toEqual([]);
  });

  test("carries out a revocation that was sent meanwhile, and answers probes and metrics", async () => {
    const revoked = await newKey();
    await expect.poll(async () => (await caller.use("rest", revoked.value)).outcome).toBe("accepted");
    const before = await sheds();
    const message = { teamId: revoked.teamId, keyId: revoked.id };
    const [, never] = await whileStalled(() =>
      Promise.all([
        usesAtOnce("rest", atOnce),
        Promise.all([
          caller.call("KeyService/RevokeKey", message).then(({ status }) => status),
          statusOf(`${keyrun.publicUrl}/healthz`),
          statusOf(`${keyrun.publicUrl}/readyz`),
          sheds().then(Number.isFinite),
        ]),
      ]),
    );
    expect(never).toEqual([200, 200, 200, true]);
    const uses = [await caller.use("rest", revoked.value)];
    while (uses.at(-1)?.outcome === "unavailable") uses.push(await caller.use("rest", revoked.value));
    expect(uses.map(({ outcome }) => outcome).filter((outcome) => outcome === "accepted")).toEqual([]);
    expect(uses.at(-1)?.outcome).toBe("revoked");
    expect(await sheds()).toBeGreaterThan(before);
  });

  test("serves those who do not flood: the caller that made it late is shed alone", async () => {
    const { publicUrl } = keyrun;
    const healthy = new Agent({ keepAlive: true, localAddress: "127.0.0.2" });
    expect(await statusFrom(healthy, publicUrl, value)).toBe(200);
    const before = await sheds();
    let flooding = true;
    const flood: Promise<void>[] = [];
    await whileStalled(async () => {
      for (let n = 0; n < atOnce; n += 1)
        flood.push(
          (async () => {
            while (flooding) await caller.use("rest", value);
          })(),
        );
    });
    const statuses: number[] = [];
    const untilMs = performance.now() + 4_000;
    while (performance.now() < untilMs) {
      statuses.push(await statusFrom(healthy, publicUrl, value));
      await pause(50);
    }
    flooding = false;
    await Promise.all(flood);
    healthy.destroy();
    figure("shed of a flood", (await sheds()) - before);
    figure("served beside it", statuses.length);
    expect(statuses.length).toBeGreaterThan(1);
    expect(statuses.filter((status) => status !== 200)).toEqual([]);
    expect((await sheds()) - before).toBeGreaterThan(0);
  });

  test("is told in the log once when it begins and once when it ends, and not for each request", async () => {
    await whileStalled(() => usesAtOnce("rest", atOnce));
    const lines = keyrun
      .stderr()
      .split("\n")
      .filter((line) => line.includes("the event loop is"));
    const begun = lines.filter((line) => line.includes("runs are refused")).length;
    expect(begun).toBeGreaterThanOrEqual(1);
    // A busy machine may make the loop late by itself, now and then.
    expect(begun).toBeLessThan((await sheds()) / 10);
    expect(keyrun.stderr()).not.toContain("OVERLOADED");
  });
});

function statusFrom(agent: Agent, publicUrl: string, token: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    request(`${publicUrl}/api/apps/echo/run`, { method: "POST", agent, headers }, (answer) => {
      answer.resume().on("end", () => resolve(answer.statusCode ?? 0));
    })
      .on("error", reject)
      .end('{"text":"x"}');
  });
}

const isAccepted = ({ outcome }: Answer) => outcome === "accepted";
