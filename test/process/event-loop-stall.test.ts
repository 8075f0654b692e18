import { Agent, request } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Answer, type FleetCaller, fleetEntries, openFleetCaller } from "../harness/fleet-caller.ts";
import { manage, readMetric } from "../harness/keyrun.ts";
import { type ServingKeyrun, serveKeyrun, statusOf } from "../harness/keyrun-process.ts";
import { stallOnSignal } from "../harness/stall-on-signal.ts";
import { createTempFolders } from "../harness/temp-folders.ts";
import { printFigures } from "../harness/test-size.ts";

const stallMs = 2_000;
/** One second, and what a busy machine adds. */
const backMsMax = 3_000;
/** More than the requests of an address that are served although the loop was late. */
const atOnce = 400;

const folders = createTempFolders();
let keyrun: ServingKeyrun;
let management: ReturnType<typeof manage>;
let caller: FleetCaller;
let value: string;

const metric = (series: string) => readMetric(keyrun.internalUrl, keyrun.serviceToken(), series);
const sheds = () => metric("keyrun_sheds_total");
const isShed = ({ outcome, headers, body }: Answer) =>
  outcome === "unavailable" && /overloaded|more to do/i.test(`${headers["grpc-message"]} ${body}`);

function stall(): void {
  keyrun.kill("SIGUSR2");
}

async function newKey() {
  return await management.newKey(await management.newTeam());
}

beforeAll(async () => {
  keyrun = await serveKeyrun(folders.create(), { KEYRUN_PLAN_LIMITS: "free=100000" }, stallOnSignal(stallMs));
  const { publicUrl, internalUrl } = keyrun;
  management = manage(internalUrl, keyrun.serviceToken());
  ({ value } = await newKey());
  caller = openFleetCaller(
    { publicUrl, internalUrl, serviceToken: keyrun.serviceToken() },
    { connectionsMax: atOnce, sessions: 8 },
  );
  // Opens the connections: what is sent on them during the stall lies in their sockets.
  for (const entry of fleetEntries) {
    const answers = await Promise.all(Array.from({ length: 100 }, () => caller.use(entry, value)));
    expect(answers.every(({ outcome }) => outcome === "accepted")).toBe(true);
  }
});

// For half a second after the stall of the test before, runs may still be shed.
beforeEach(async () => {
  const outcome = async () => (await caller.use("rest", value)).outcome;
  await expect.poll(outcome, { timeout: 10_000, interval: 700 }).toBe("accepted");
});

afterAll(async () => {
  caller?.close();
  management?.disconnect();
  keyrun?.kill("SIGKILL");
  await keyrun?.exited;
  folders.remove();
});

describe("an event loop that stood still for 2 s", () => {
  test.each(fleetEntries.filter((entry) => entry !== "verify"))(
    "sheds what waited for it (%s), and serves all again within a second",
    {
      timeout: 60_000,
    },
    async (entry) => {
      const before = await sheds();
      stall();
      const sentMs = performance.now();
      await pause(100);
      const parked = Promise.all(Array.from({ length: atOnce }, () => caller.use(entry, value)));
      const first = await caller.use(entry, value);
      const overMs = performance.now();
      expect(overMs - sentMs).toBeGreaterThan(stallMs - 500);
      const answers = [first, ...(await parked)];

      // One after the other, until nothing was refused for half a second.
      let troubleMs = overMs;
      while (performance.now() - troubleMs < 500) {
        const answer = await caller.use(entry, value);
        answers.push(answer);
        if (answer.outcome !== "accepted") troubleMs = performance.now();
      }
      const shed = answers.filter(isShed);
      printFigures(
        `${entry}: ${shed.length} of ${answers.length} requests shed; back after ${(troubleMs - overMs).toFixed(0)} ms`,
      );
      expect(shed.length).toBeGreaterThan(0);
      const wrong = answers.filter((answer) => answer.outcome !== "accepted" && !isShed(answer));
      expect(wrong).toEqual([]);
      for (const { headers } of shed) expect(headers["retry-after"]).toBe("1");
      expect(troubleMs - overMs).toBeLessThan(backMsMax);
      expect((await sheds()) - before).toBe(shed.length);
      expect(
        (await Promise.all(Array.from({ length: 100 }, () => caller.use(entry, value)))).every(isAccepted),
      ).toBe(true);
    },
  );

  test("goes on verifying keys for a service that is known, although all its calls come from one address", {
    timeout: 60_000,
  }, async () => {
    const both = () =>
      Promise.all(
        (["rest", "verify"] as const).map((entry) =>
          Promise.all(Array.from({ length: atOnce }, () => caller.use(entry, value))),
        ),
      );
    // Opens the connections.
    await both();
    stall();
    await pause(100);
    const [runs = [], calls = []] = await both();
    printFigures(
      `${runs.filter(isShed).length} of ${runs.length} runs shed, and ${calls.filter(isShed).length} of as many calls of VerifyKey`,
    );
    // Both came from one address, and only the runs are counted by it.
    expect(runs.filter(isShed).length).toBeGreaterThan(0);
    expect(calls.filter(isAccepted).length).toBeGreaterThan(atOnce / 2);
    expect(calls.filter((answer) => !isAccepted(answer) && !isShed(answer))).toEqual([]);
  });

  test("carries out a revocation that was sent meanwhile, and answers probes and metrics", {
    timeout: 60_000,
  }, async () => {
    const revoked = await newKey();
    expect((await caller.use("rest", revoked.value)).outcome).toBe("accepted");
    const before = await sheds();
    stall();
    await pause(100);
    const runs = Promise.all(Array.from({ length: atOnce }, () => caller.use("rest", value)));
    const message = { teamId: revoked.teamId, keyId: revoked.id };
    const never = Promise.all([
      caller.call("KeyService/RevokeKey", message).then(({ status }) => status),
      statusOf(`${keyrun.publicUrl}/healthz`),
      statusOf(`${keyrun.publicUrl}/readyz`),
      sheds().then(Number.isFinite),
    ]);
    expect(await never).toEqual([200, 200, 200, true]);
    const uses = [await caller.use("rest", revoked.value)];
    while (uses.at(-1)?.outcome === "unavailable") uses.push(await caller.use("rest", revoked.value));
    expect(uses.map(({ outcome }) => outcome).filter((outcome) => outcome === "accepted")).toEqual([]);
    expect(uses.at(-1)?.outcome).toBe("revoked");
    await runs;
    expect(await sheds()).toBeGreaterThan(before);
  });

  test("serves those who do not flood: the caller that made it late is shed alone", {
    timeout: 60_000,
  }, async () => {
    const { publicUrl } = keyrun;
    const healthy = new Agent({ keepAlive: true, localAddress: "127.0.0.2" });
    expect(await statusFrom(healthy, publicUrl, value)).toBe(200);
    const before = await sheds();
    stall();
    await pause(100);
    let flooding = true;
    const flood = Array.from({ length: atOnce }, async () => {
      const outcomes = [];
      while (flooding) outcomes.push((await caller.use("rest", value)).outcome);
      return outcomes;
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
    printFigures(`${(await sheds()) - before} shed of the flood, ${statuses.length} served beside it`);
    expect(statuses.length).toBeGreaterThan(1);
    expect(statuses.filter((status) => status !== 200)).toEqual([]);
    expect((await sheds()) - before).toBeGreaterThan(0);
  });

  test("is told in the log once when it begins and once when it ends, and not for each request", () => {
    const lines = keyrun
      .stderr()
      .split("\n")
      .filter((line) => line.includes("the event loop is"));
    const begun = lines.filter((line) => line.includes("runs are refused")).length;
    expect(begun).toBeGreaterThanOrEqual(1);
    // A busy machine may make the loop late by itself, now and then.
    expect(begun).toBeLessThan(20);
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
