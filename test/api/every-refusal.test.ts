import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { reasons, rowOf } from "#src/refusal/reasons.ts";
import type { WireAnswer } from "../harness/exchange.ts";
import { reasonOfAnswer } from "../harness/reason-of-answer.ts";
import { headCases } from "./refusals/head-cases.ts";
import { httpCases, oidcCases } from "./refusals/http-cases.ts";
import { type Ledger, openLedger, seriesOf } from "./refusals/ledger.ts";
import { nameOf, type RefusalCase } from "./refusals/refusal-case.ts";
import { rpcCases } from "./refusals/rpc-cases.ts";
import { runCases } from "./refusals/run-cases.ts";
import { slowCases } from "./refusals/slow-cases.ts";
import { unreachable } from "./refusals/unreachable.ts";
import { type RefusalWorld, startRefusalWorld } from "./refusals/world.ts";

const quickCases = [...headCases, ...httpCases, ...oidcCases, ...rpcCases, ...runCases];

const [quickWorld, slowWorld] = await Promise.all([startRefusalWorld(), startRefusalWorld()]);
const world = quickWorld;
const slow = await sendSlowCases(slowWorld);

afterAll(async () => {
  await Promise.all([world.close(), slow.world.close()]);
});

test("each reason of the table has a case, or words that say why no caller can cause it", () => {
  const caused = new Set<string>([...quickCases, ...slowCases].map(({ reason }) => reason));
  const told = Object.keys(unreachable);
  expect([...caused].filter((reason) => told.includes(reason))).toEqual([]);
  expect([...caused, ...told].sort()).toEqual(Object.keys(reasons).sort());
});

test("what refuses a run over REST is said in the API's document", () => {
  const runs = [...quickCases, ...slowCases].filter(
    ({ entry, request }) => entry === "rest" && /^POST .*\/(run|stream)$/.test(request),
  );
  // To a caller that has disconnected nothing is answered.
  const answered = new Set(runs.map(({ reason }) => reason).filter((reason) => reason !== "CANCELLED"));
  expect(answered.size).toBeGreaterThan(15);
  expect([...answered].filter((reason) => rowOf(reason).ofRun === undefined)).toEqual([]);
});

test("each case has a name of its own", () => {
  const names = [...quickCases, ...slowCases].map(nameOf);
  expect(names.filter((name, at) => names.indexOf(name) !== at)).toEqual([]);
});

describe("a refusal is answered, counted and logged once:", () => {
  const keyruns = ["keyrun", "oidcKeyrun"] as const;
  const ledgers: Ledger[] = [];
  let sentCount = 0;
  let wasPrepared = false;

  beforeAll(async () => {
    subscribe("net.server.socket", onAccepted);
    for (const name of keyruns) ledgers.push(await openLedger(world[name]));
  });
  afterAll(() => {
    unsubscribe("net.server.socket", onAccepted);
  });

  test.each(quickCases.map((one) => [nameOf(one), one] as const))("%s", async (_, one) => {
    const url = new URL(world.url(one.listener, one.at));
    const undo = await one.prepare?.(world);
    try {
      const isIdle = one.prepare === undefined && !wasPrepared;
      const ledger = await openLedger(world[one.at ?? "keyrun"], { isIdle });
      const openBefore = openConnections(url.port);
      sentCount += 1;
      const sentId = `case-${sentCount}`;
      const answer = await one.send(world, sentId);
      if (answer !== undefined) expectAnswer(one, answer);
      // What ends with its connection has ended.
      await expect.poll(() => openConnections(url.port), { interval: 1 }).toBeLessThanOrEqual(openBefore);
      if (answer === undefined) await expect.poll(() => ledger.lines().length).toBeGreaterThan(0);
      expect(await ledger.growth()).toEqual({ [seriesOf(one.entry, one.reason)]: 1 });
      expect(ledger.lines()).toHaveLength(1);
      expectLine(ledger, one, requestIdOf(answer) ?? sentId);
    } finally {
      await undo?.();
      wasPrepared = one.prepare !== undefined;
    }
  });

  test("and nothing more was logged or counted later", async () => {
    const growths = await Promise.all(ledgers.map((ledger) => ledger.growth()));
    const refused = growths.flatMap((growth) =>
      Object.entries(growth).flatMap(([series, by]) => (series.includes(" OK ") ? [] : [by])),
    );
    expect(refused.reduce((sum, by) => sum + by, 0)).toBe(sentCount);
    expect(ledgers.flatMap((ledger) => ledger.lines())).toHaveLength(sentCount);
  });
});

describe("a refusal that takes its time", () => {
  const timeMax = 240_000;

  test.each(slowCases.map((one, at) => [nameOf(one), one, at] as const))(
    "is answered and logged once: %s",
    async (_, one, at) => {
      const { answer, sentId } = await slow.sent[at]!;
      if (answer !== undefined) expectAnswer(one, answer);
      else await expect.poll(() => slow.ledger.lines().map(({ requestId }) => requestId)).toContain(sentId);
      expectLine(slow.ledger, one, requestIdOf(answer) ?? sentId);
    },
    timeMax,
  );

  test("is counted once", async () => {
    await Promise.all(slow.sent);
    const expected: Record<string, number> = {};
    for (const { entry, reason } of slowCases) {
      const series = seriesOf(entry, reason);
      expected[series] = (expected[series] ?? 0) + 1;
    }
    expect(await slow.ledger.growth()).toEqual(expected);
    expect(slow.ledger.lines()).toHaveLength(slowCases.length);
  });
});

/** The port of each connection that a server of this process has accepted and not closed. */
const accepted = new Map<Socket, number | undefined>();

function onAccepted(message: unknown): void {
  const { socket } = message as { socket: Socket };
  accepted.set(socket, socket.localPort);
  socket.once("close", () => accepted.delete(socket));
}

/** The kernel's own table is far slower to read, where a test asks for it a thousand times. */
function openConnections(port: string): number {
  return [...accepted.values()].filter((each) => each === Number(port)).length;
}

/** Sends them all at once to a Keyrun of their own, and waits for none. */
async function sendSlowCases(slowWorld: RefusalWorld) {
  const ledger = await openLedger(slowWorld.keyrun);
  const sent = slowCases.map(async (one, at) => {
    const sentId = `slow-${at}`;
    return { sentId, answer: await one.send(slowWorld, sentId) };
  });
  // Each is awaited by its own test; one that fails before that must not end the others.
  for (const each of sent) each.catch(() => undefined);
  return { world: slowWorld, ledger, sent };
}

function expectAnswer({ reason, entry, pageError }: RefusalCase, answer: WireAnswer): void {
  if (pageError !== undefined) {
    const { searchParams } = new URL(String(answer.headers.location), world.keyrun.publicUrl);
    expect(searchParams.get("error")).toBe(pageError);
    return;
  }
  expect(reasonOfAnswer(answer)).toBe(reason);
  if (entry === "rest") expect(answer.status).toBe(reasons[reason].httpStatus);
}

function expectLine(ledger: Ledger, one: RefusalCase, requestId: string): void {
  const own = ledger.lines().filter((line) => line.requestId === requestId);
  const { entry, reason, request } = one;
  expect(own).toMatchObject([{ entry, reason, request, requestId, address: "127.0.0.1" }]);
  for (const secret of [...world.secrets, ...slow.world.secrets]) expect(own[0]!.text).not.toContain(secret);
}

/** The id that the answer names. If no request was read, it is never the caller's own. */
function requestIdOf(answer: WireAnswer | undefined): string | undefined {
  const id = answer?.headers["x-request-id"];
  return id === undefined ? undefined : String(id);
}
