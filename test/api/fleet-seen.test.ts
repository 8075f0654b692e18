import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { timeFigures } from "../harness/campaigns.ts";
import {
  deletedOnce,
  eventually,
  madeOnce,
  whileAnswer,
  whileBusy,
  whileDisturbed,
} from "../harness/eventually.ts";
import { describeFleet, type FleetHere, startFleet } from "../harness/fleet.ts";
import type { Keyrun } from "../harness/keyrun.ts";
import { servedRun } from "../harness/keyrun-process.ts";
import { restStreamCallers } from "../harness/rest-stream-callers.ts";
import { connectStreamCallers } from "../harness/stream-callers.ts";
import { startTalkingApp } from "../harness/talking-app.ts";

/** The default of KEYRUN_KEYS_PER_TEAM_MAX. */
const keysMade = 50;

describeFleet("here")("what one instance of a fleet does is seen on another", () => {
  let fleet: FleetHere;
  let app: Awaited<ReturnType<typeof startTalkingApp>>;
  beforeAll(async () => {
    app = await startTalkingApp();
    fleet = await startFleet({ in: "here", settings: { KEYRUN_KEYS_PER_TEAM_MAX: "500" } });
    await madeOnce(() => fleet.members[0].apps.createApp({ app: { id: "talk", backend: app.backend } }));
  });
  afterAll(async () => {
    await fleet.close();
    await app.close();
  });

  /** The events of a key, or of all. */
  const wordsOf = (events: readonly { readonly words: string }[], id: string) =>
    events.map(({ words }) => words).filter((words) => words.endsWith(id));

  let cutOffs = 0;

  /**
   * Does it again where it fails and a watch was cut off meanwhile: an instance that may have
   * missed a change ends its watches, as it must, so that their clients list the keys again.
   */
  const unlessCutOff = (story: () => Promise<void>) =>
    eventually<void>(
      story,
      whileDisturbed(() => cutOffs),
    );

  /** Watches a team on an instance. Each event has the time at which it came. */
  async function watch({ keys }: Keyrun, teamId: string) {
    const events: { readonly words: string; readonly atMs: number }[] = [];
    const uses: typeof events = [];
    const leaving = new AbortController();
    const stream = await eventually(async () => {
      const opened = keys.watchKeys({ teamId }, { signal: leaving.signal })[Symbol.asyncIterator]();
      await opened.next();
      return opened;
    }, whileBusy);
    const ended = (async () => {
      for (;;) {
        const { value, done } = await stream.next();
        if (done) return "ended";
        const { event } = value;
        if (event.case !== "created" && event.case !== "revoked" && event.case !== "used") continue;
        const told = { words: `${event.case} ${event.value.id}`, atMs: performance.now() };
        if (event.case === "used") uses.push(told);
        else events.push(told);
      }
    })().catch((thrown) => {
      if (!leaving.signal.aborted && String(thrown).includes("[unavailable]")) cutOffs += 1;
      return String(thrown);
    });
    onTestFinished(() => leaving.abort());
    return { events, uses, ended, words: (id = "") => wordsOf(events, id) };
  }

  test("a key created or revoked on one is told once to those who watch it on each", () =>
    unlessCutOff(async () => {
      const [one, other] = fleet.members;
      const teamId = await one.newTeam();
      const [here, there] = [await watch(one, teamId), await watch(other, teamId)];
      const tookMs: number[] = [];
      for (let n = 0; n < 10; n++) {
        for (const instance of [one, other]) {
          let beganMs = performance.now();
          const { id } = await instance.newKey(teamId);
          for (const each of [here, there]) {
            await expect.poll(() => each.words(id)).toEqual([`created ${id}`]);
            tookMs.push((each.events.at(-1)?.atMs ?? Number.NaN) - beganMs);
          }
          beganMs = performance.now();
          await instance.keys.revokeKey({ teamId, keyId: id });
          for (const each of [here, there]) {
            await expect.poll(() => each.words(id)).toEqual([`created ${id}`, `revoked ${id}`]);
            tookMs.push((each.events.at(-1)?.atMs ?? Number.NaN) - beganMs);
          }
        }
      }
      for (const { words } of [here, there]) expect(words()).toHaveLength(new Set(words()).size);
      timeFigures("a change of a key until a watcher of a fleet has it", tookMs);
    }));

  test("as many keys as a team may have, made at once, are told each once", () =>
    unlessCutOff(async () => {
      const [one, other] = fleet.members;
      const teamId = await one.newTeam();
      const there = await watch(other, teamId);
      // A store that takes over a second for so many is asked again.
      const made = await Promise.all(Array.from({ length: keysMade }, () => one.newKey(teamId)));
      for (const { id } of made) await expect.poll(() => there.words(id)).toEqual([`created ${id}`]);
      // What was made without an answer is told at most once, too.
      const told = there.words();
      expect(told).toHaveLength(new Set(told).size);
    }));

  test("a team deleted on one ends its watches on the other", async () => {
    const [one, other] = fleet.members;
    const teamId = await one.newTeam();
    const there = await watch(other, teamId);
    await deletedOnce(() => one.teams.deleteTeam({ teamId }));
    const answeredMs = performance.now();
    expect(await there.ended).toContain("[not_found]");
    timeFigures("watches on another instance ended after a team's deletion", [
      performance.now() - answeredMs,
    ]);
  });

  test("a use on one is told to those who watch its key on the other", () =>
    unlessCutOff(async () => {
      const [one, other] = fleet.members;
      const { id, teamId, value } = await one.newKey(await one.newTeam());
      const there = await watch(other, teamId);
      const tookMs: number[] = [];
      for (let n = 0; n < 3; n++) {
        const sentMs = performance.now();
        expect((await servedRun(one.publicUrl, { value, appId: "echo", text: "x" })).status).toBe(200);
        await expect.poll(() => there.uses.length).toBe(n + 1);
        expect(there.uses.at(-1)?.words).toBe(`used ${id}`);
        tookMs.push((there.uses.at(-1)?.atMs ?? Number.NaN) - sentMs);
      }
      timeFigures("a use until a watcher on another instance has it", tookMs);
    }));

  test("a use on one shows on a list of the other", async () => {
    const [one, other] = fleet.members;
    const { id: keyId, teamId, value } = await one.newKey(await one.newTeam());
    const tookMs: number[] = [];
    for (let n = 0; n < 3; n++) {
      const usedMs = Date.now();
      expect((await servedRun(one.publicUrl, { value, appId: "echo", text: "x" })).status).toBe(200);
      const sentMs = performance.now();
      await expect
        .poll(async () => {
          const { keys } = await other.keys.listKeys({ teamId });
          const time = keys.find(({ id }) => id === keyId)?.lastUseTime;
          return Number(time?.seconds ?? 0) * 1_000 + (time?.nanos ?? 0) / 1e6 >= usedMs;
        })
        .toBe(true);
      tookMs.push(performance.now() - sentMs);
    }
    timeFigures("a use until a list on another instance shows it", tookMs);
  });

  describe.each([
    [
      "a revoked key",
      (keyId: string, teamId: string) => fleet.members[0].keys.revokeKey({ teamId, keyId }),
      "REVOKED_API_KEY",
    ],
    [
      "a team that lost the app",
      () =>
        fleet.members[0].apps.updateApp({
          app: { id: "talk", teamIds: ["team-of-nobody"] },
          updateMask: { paths: ["team_ids"] },
        }),
      "APP_NOT_FOUND",
    ],
  ] as const)("the streams of %s", (_, takeAway, reason) => {
    test("end on every instance, though their apps go on", async () => {
      const [one, other] = fleet.members;
      await one.teams.createTeam({ team: { id: "team-of-nobody", plan: Plan.FREE } }).catch(() => {});
      const key = await one.newKey(await one.newTeam(Plan.ENTERPRISE));
      const callers = [one, other].flatMap(({ publicUrl }) =>
        Object.values({ ...restStreamCallers, ...connectStreamCallers }).map((make) => make(publicUrl)),
      );
      onTestFinished(() => {
        for (const caller of callers) caller.close();
      });
      const streams = await Promise.all(
        callers.map(async (caller, n) => {
          let tries = 0;
          const { stream, first } = await eventually(
            async () => {
              tries += 1;
              const text = `${reason} ${n} ${tries}`;
              const stream = caller.open({ appId: "talk", authorization: `Bearer ${key.value}`, text });
              void app.talk(text).then((talk) => talk.begin());
              return { stream, first: await stream.next() };
            },
            whileAnswer(({ first }) => first.kind === "refused" && first.reason === "UNAVAILABLE"),
          );
          expect(first).toMatchObject({ kind: "started" });
          return stream;
        }),
      );
      const ends = streams.map(async (stream) => ({ end: await stream.next(), atMs: performance.now() }));
      await takeAway(key.id, key.teamId);
      const answeredMs = performance.now();
      const tookMs: number[] = [];
      for (const each of await Promise.all(ends)) {
        expect(each.end).toMatchObject({ kind: "refused", reason });
        tookMs.push(each.atMs - answeredMs);
      }
      timeFigures(`streams on two instances ended after the answer, ${reason}`, tookMs);
    });
  });
});
