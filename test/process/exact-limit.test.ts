import { afterAll, expect, test } from "vitest";
import { campaignSize, figure } from "../harness/campaigns.ts";
import { closedAtEnd, tempFolders } from "../harness/closed-at-end.ts";
import { eventually, whileAnswer } from "../harness/eventually.ts";
import {
  type Answer,
  everyEntry,
  type FleetEntry,
  makeGuarded,
  openFleetCaller,
} from "../harness/fleet-caller.ts";
import { manage } from "../harness/keyrun.ts";
import { serveKeyrun } from "../harness/keyrun-process.ts";

const folders = tempFolders();

const keyrun = await serveKeyrun(folders.create());
const { publicUrl, internalUrl } = keyrun;
const serviceToken = keyrun.serviceToken();
const management = manage(internalUrl, serviceToken);
await makeGuarded(management);
const caller = closedAtEnd(openFleetCaller({ publicUrl, internalUrl, serviceToken }));

afterAll(async () => {
  management.disconnect();
  keyrun.kill("SIGKILL");
  await keyrun.exited;
});

const teams = campaignSize("limits") === 1 ? 6 : 50;
/** Past the first, each takes a minute: the tests wait as long as Keyrun's answers say. */
const windows = campaignSize("limits");
const limit = 60;
const windowMs = 60_000;
/** Requests of one team in a burst, through each entry: more than twice the limit in all. */
const usesOfEntry = 17;
/** The answer's wait is rounded up to the millisecond, in both processes. */
const roundingMs = 2;

test(`seven entries and a guard at once accept exactly ${limit} requests a minute of each of ${teams} teams`, {
  timeout: 180_000 + windows * 180_000,
}, async () => {
  expect(everyEntry).toHaveLength(8);
  const all = await Promise.all(Array.from({ length: teams }, hammerOneTeam));
  const uses = all.flat();
  const accepted = uses.filter(({ kind }) => kind === "accepted").length;
  figure("requests", uses.length);
  figure("accepted", accepted);
});

/** One answered request, with the times between which Keyrun has decided. */
interface Use {
  readonly kind: "accepted" | "limited";
  readonly sentMs: number;
  readonly answeredMs: number;
  readonly retryAfterMs: number;
}

async function hammerOneTeam(): Promise<Use[]> {
  const { value } = await management.newKey(await management.newTeam());
  const all: Use[] = [];
  const send = async (entry: FleetEntry) => {
    const use = await timed(entry, value);
    all.push(use);
    return use;
  };
  const burst = () =>
    Promise.all(
      Array.from({ length: usesOfEntry * everyEntry.length }, (_, at) =>
        send(everyEntry[at % everyEntry.length]!),
      ),
    );
  let spent: number = everyEntry.length;
  for (let window = 1; ; window += 1) {
    const uses = await inTurn(async () => {
      // In the first window each entry is seen to spend from the same limit.
      for (const entry of everyEntry.slice(0, window === 1 ? spent : 0)) {
        expect(await send(entry)).toMatchObject({ kind: "accepted" });
      }
      return burst();
    });
    expect(acceptedOf(uses)).toHaveLength(limit - spent);
    expectTrueWaits(all);
    if (window === windows) break;
    // The last answer's wait is the shortest. After exactly that, one more is accepted.
    const last = all.findLast(({ kind }) => kind === "limited");
    await until((last?.answeredMs ?? 0) + (last?.retryAfterMs ?? 0));
    expect(await send(everyEntry[window % everyEntry.length]!)).toMatchObject({ kind: "accepted" });
    // Once all others have left the window, that one still counts.
    await until(Math.max(...acceptedOf(all.slice(0, -1)).map(({ answeredMs }) => answeredMs)) + windowMs);
    spent = 1;
  }
  expectNoWindowAboveTheLimit(all);
  return all;
}

/** Teams whose bursts run at the same time: with more, a client holds too many connections. */
const burstsAtOnce = 4;
const lanes: Promise<unknown>[] = Array.from({ length: burstsAtOnce }, () => Promise.resolve());
let nextLane = 0;

function inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
  const lane = nextLane++ % burstsAtOnce;
  const done = lanes[lane]!.then(work);
  lanes[lane] = done.catch(() => undefined);
  return done;
}

/** Asks again where a busy machine made the event loop late: Keyrun has not begun with it. */
async function timed(entry: FleetEntry, value: string): Promise<Use> {
  let sentMs = 0;
  const ask = () => {
    sentMs = performance.now();
    return caller.use(entry, value);
  };
  const answer = await eventually(ask, whileAnswer(isShed));
  const { outcome, body } = answer;
  if (outcome !== "accepted" && outcome !== "limited") throw new Error(`${entry}: ${outcome} ${body}`);
  const retryAfterMs = outcome === "limited" ? waitOf(entry, answer) : 0;
  return { kind: outcome, sentMs, answeredMs: performance.now(), retryAfterMs };
}

function isShed({ outcome, headers, body }: Answer): boolean {
  return outcome === "unavailable" && /overloaded|more to do/i.test(`${headers["grpc-message"]} ${body}`);
}

/** In milliseconds. gRPC-Web has its trailers in the body. */
function waitOf(entry: FleetEntry, { headers, body }: Answer): number {
  const told = (name: string) =>
    Number(headers[name] ?? new RegExp(`^${name}: ?(\\d+)`, "m").exec(body)?.[1]);
  if (entry === "verify") {
    const { retryAfter } = JSON.parse(body.replace(/^\d+ /, "")).rateLimit;
    return Number.parseFloat(retryAfter) * 1_000;
  }
  const waitMs = told("retry-after-ms");
  expect(told("retry-after"), entry).toBe(Math.ceil(waitMs / 1_000));
  return waitMs;
}

function acceptedOf(uses: readonly Use[]): Use[] {
  return uses.filter(({ kind }) => kind === "accepted");
}

/** Each refusal says when the oldest of the 60 leaves the window: not earlier, and not later. */
function expectTrueWaits(all: readonly Use[]): void {
  for (const refused of all) {
    if (refused.kind === "accepted") continue;
    const counted = acceptedOf(all).filter(({ answeredMs }) => answeredMs + windowMs > refused.sentMs);
    const earliestMs = Math.min(...counted.map(({ sentMs }) => sentMs)) + windowMs;
    const latestMs = Math.min(...counted.map(({ answeredMs }) => answeredMs)) + windowMs;
    expect(refused.answeredMs + refused.retryAfterMs).toBeGreaterThanOrEqual(earliestMs - roundingMs);
    expect(refused.sentMs + refused.retryAfterMs).toBeLessThanOrEqual(latestMs + roundingMs);
  }
}

/** Requests that were sent and answered within one window were decided within it. */
function expectNoWindowAboveTheLimit(all: readonly Use[]): void {
  const accepted = acceptedOf(all);
  for (const { sentMs } of accepted) {
    const within = accepted.filter((use) => use.sentMs >= sentMs && use.answeredMs < sentMs + windowMs);
    expect(within.length).toBeLessThanOrEqual(limit);
  }
}

async function until(ms: number): Promise<void> {
  while (performance.now() < ms) await new Promise((done) => setTimeout(done, ms - performance.now()));
}
