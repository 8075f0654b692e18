import { randomBytes } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectCallers } from "../harness/callers.ts";
import { figure } from "../harness/campaigns.ts";
import { eventually, whileAnswer } from "../harness/eventually.ts";
import { describeFleet, type Fleet, startFleet } from "../harness/fleet.ts";
import { type FleetCaller, fleetEntries, openFleetCaller } from "../harness/fleet-caller.ts";
import { type HaProxy, startHaProxy } from "../harness/haproxy.ts";
import type { IssuedKey, manage } from "../harness/keyrun.ts";
import { restRun, type Settings, servedRun } from "../harness/keyrun-process.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

/** Longer than HAProxy needs to see that `/readyz` fails. */
const drainDelayMs = 1_200;
/** Requests that wait for their answer at the same time, for each entry. */
const lanesOfEntry = 2;
const newSecret = () => randomBytes(32).toString("base64url");
/** Of all members. */
let secret = newSecret();

const folders = createTempFolders();
let fleet: Fleet;
let haproxy: HaProxy;
let management: ReturnType<typeof manage>;
let caller: FleetCaller;

const longer = { timeout: 900_000 };

interface Load {
  /** The key that is used from now on. */
  use(value: string): void;
  /** Ends. Returns how many requests each entry sent, and all answers that were no acceptance. */
  end(): Promise<Loaded>;
}

interface Loaded {
  readonly counts: Record<string, number>;
  readonly failed: readonly string[];
  /** That an instance can't answer now. Proves nothing if it says that the machine starved it. */
  readonly busy: readonly string[];
}

/** Requests through HAProxy: over kept connections, HTTP/2 and gRPC, with two clients of gRPC. */
function load(first: string): Load {
  let value = first;
  let over = false;
  const counts: Record<string, number> = {};
  const failed: string[] = [];
  const busy: string[] = [];
  const connect = connectCallers.gRPC!(haproxy.h2Url);
  const count = (entry: string, failure: string | undefined) => {
    counts[entry] = (counts[entry] ?? 0) + 1;
    if (failure === undefined) return;
    (/can't answer this now|has more to do/.test(failure) ? busy : failed).push(`${entry}: ${failure}`);
  };
  const raw = async (entry: (typeof fleetEntries)[number]) => {
    const { outcome, headers, body } = await caller.use(entry, value);
    const words = `${outcome} ${headers["grpc-message"] ?? ""} ${body.slice(0, 300)}`;
    count(entry, outcome === "accepted" ? undefined : words);
  };
  const connectClient = async () => {
    const outcome = await connect.run({ appId: "echo", text: "x", authorization: `Bearer ${value}` });
    count("Connect's gRPC client", outcome.kind === "ok" ? undefined : outcome.message);
  };
  const lane = async (send: () => Promise<void>) => {
    while (!over) {
      await send();
      await pause(20);
    }
  };
  const ways = [...fleetEntries.map((entry) => () => raw(entry)), connectClient];
  const lanes = ways.flatMap((send) => Array.from({ length: lanesOfEntry }, () => lane(send)));
  return {
    use(next) {
      value = next;
    },
    async end() {
      over = true;
      await Promise.all(lanes);
      connect.close();
      return { counts, failed, busy };
    },
  };
}

/** Fails no request. Does it again where one got 503 of an instance that the machine starved. */
async function failsNone(name: string, story: () => Promise<Loaded>): Promise<void> {
  const attempt = async () => {
    const before = fleet.starvation().length;
    const { counts, failed, busy } = await story();
    figure(name, inWords(counts));
    figure(`${name}: failed`, failed.length + busy.length);
    expect(failed.slice(0, 5)).toEqual([]);
    return { busy, wasStarved: fleet.starvation().length > before };
  };
  const isNone = whileAnswer<Awaited<ReturnType<typeof attempt>>>(
    ({ busy, wasStarved }) => busy.length > 0 && wasStarved,
  );
  const { busy } = await eventually(attempt, { ...isNone, triesMax: 4 });
  expect(busy).toEqual([]);
}

/** Stops and starts one member after the other, as a deploy does. */
async function deploy(settings: Settings): Promise<void> {
  for (const member of fleet.members) {
    await member.stop();
    await member.start({ KEYRUN_DRAIN_DELAY_MS: `${drainDelayMs}`, ...settings });
    await haproxy.untilUp(member.place);
  }
}

async function newKey(): Promise<IssuedKey> {
  return management.newKey(await management.newTeam());
}

/** Every instance by itself, and not the one that the balancer picks. */
async function everywhere(run: typeof restRun, value: string) {
  return Promise.all(fleet.members.map(({ publicUrl }) => run(publicUrl, { value })));
}

async function statusesOf(value: string): Promise<number[]> {
  return (await everywhere(servedRun, value)).map(({ status }) => status);
}

describeFleet("processes")("three instances behind HAProxy", () => {
  beforeAll(async () => {
    const settings = {
      KEYRUN_SECRET: secret,
      KEYRUN_DRAIN_DELAY_MS: `${drainDelayMs}`,
    };
    fleet = await startFleet({ in: "processes", settings });
    haproxy = await startHaProxy(folders.create(), fleet.members);
    management = fleet.manage();
    const address = { publicUrl: haproxy.url, publicH2Url: haproxy.h2Url, internalUrl: haproxy.internalUrl };
    caller = openFleetCaller({ ...address, serviceToken: fleet.serviceToken }, { sessions: 4 });
  });
  afterAll(async () => {
    caller?.close();
    await haproxy?.close();
    await fleet?.close();
    folders.remove();
  });

  test("a rolling deploy fails no request, over HTTP/1.1, HTTP/2 and gRPC", longer, () =>
    failsNone("rolling deploy", async () => {
      const { value } = await newKey();
      const running = load(value);
      await pause(500);
      await deploy({ KEYRUN_SECRET: secret });
      await pause(500);
      return running.end();
    }),
  );

  test("the service secret changes in three rounds without a failed request", longer, () =>
    failsNone("change of the secret", async () => {
      const next = newSecret();
      const old = await newKey();
      const running = load(old.value);
      await deploy({ KEYRUN_SECRET: `${secret},${next}` });
      await deploy({ KEYRUN_SECRET: `${next},${secret}` });
      const renewed = await newKey();
      expect(await statusesOf(old.value)).toEqual([200, 200, 200]);
      expect(await statusesOf(renewed.value)).toEqual([200, 200, 200]);
      running.use(renewed.value);
      await pause(300);
      // A secret can be dropped once no key needs it.
      for (const { id: teamId } of (await management.teams.listTeams({})).teams) {
        if (teamId === renewed.teamId) continue;
        const { keys } = await management.keys.listKeys({ teamId });
        for (const { id: keyId } of keys) await management.keys.revokeKey({ teamId, keyId });
        await management.teams.deleteTeam({ teamId });
      }
      await deploy({ KEYRUN_SECRET: next });
      secret = next;
      const loaded = await running.end();
      expect(await statusesOf(renewed.value)).toEqual([200, 200, 200]);
      expect(await statusesOf(old.value)).toEqual([401, 401, 401]);
      return loaded;
    }),
  );

  test("a plan's limit that the newest instance brings holds for all at once", async () => {
    const { value } = await newKey();
    const beganMs = performance.now();
    const spent = { accepted: 0, unanswered: 0 };
    const uses = async () => {
      const answers = await everywhere(restRun, value);
      for (const { status } of answers) {
        if (status === 200) spent.accepted += 1;
        // An answer of Redis that came too late may have counted.
        else if (status === 503) spent.unanswered += 1;
        else expect(status).toBe(429);
      }
      return answers;
    };
    /** Once each instance has answered in one go. */
    const limits = async () => {
      const isNone = (answers: Awaited<ReturnType<typeof uses>>) =>
        answers.some(({ status }) => status === 503);
      const answers = await eventually(uses, whileAnswer(isNone));
      return answers.map(({ headers }) => Number(headers.get("ratelimit-limit")));
    };
    expect(await limits()).toEqual([100_000, 100_000, 100_000]);
    const [first] = fleet.members;
    const lower = { KEYRUN_SECRET: secret, KEYRUN_PLAN_LIMITS: "free=50" };
    await first!.stop();
    await first!.start(lower);
    expect(await limits()).toEqual([50, 50, 50]);
    for (let turn = 0; turn < 30; turn += 1) await uses();
    // In the time of two windows twice as many are right.
    const windows = Math.ceil((performance.now() - beganMs) / 60_000);
    expect(spent.accepted).toBeLessThanOrEqual(windows * 50);
    expect(spent.accepted + spent.unanswered).toBeGreaterThanOrEqual(50);
    await deploy(lower);
    expect(await limits()).toEqual([50, 50, 50]);
  });
});

function inWords(counts: Record<string, number>): string {
  return Object.entries(counts)
    .map(([entry, count]) => `${count} ${entry}`)
    .join(", ");
}
