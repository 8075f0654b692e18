import { randomInt } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { expect } from "vitest";
import { KeyState } from "#gen/keyrun/v1/key_pb.ts";
import { VerifyKeyResponse_Verdict as Verdict } from "#gen/keyrun/v1/key_service_pb.ts";
import { figures, timeFigures } from "./campaigns.ts";
import { startFleet } from "./fleet.ts";
import { manage } from "./keyrun.ts";
import { type ServingKeyrun, type Settings, servedRun, serveKeyrun } from "./keyrun-process.ts";
import { createTempFolders } from "./temp-folders.ts";
import { until } from "./until.ts";

/** A Keyrun that runs until the next kill. */
export interface Running {
  readonly publicUrl: string;
  readonly manager: ReturnType<typeof manage>;
}

/** Where Keyruns run, are killed, and are started again on what they have written. */
export interface KilledPlace {
  /** In the names of its figures. */
  readonly store: "embedded store" | "MongoDB" | "one of several on MongoDB";
  /** A data folder, or the URI of a database. */
  readonly path: string;
  /** Starts those that do not run, and returns all. */
  start(): Promise<readonly Running[]>;
  /** Ends one by SIGKILL, another one each time. */
  kill(cycle: number): Promise<unknown>;
  close(): Promise<void>;
}

/** What writes while a Keyrun is killed, and knows what it was answered. */
export interface Writer {
  /** Writes until it is over, or until what it writes to has ended. */
  write(running: readonly Running[], cycle: number, isOver: () => boolean): Promise<unknown>;
  /** Whether it is time for the kill, which comes up to so many milliseconds later. */
  isDue(): boolean;
  readonly laterMsMax?: number;
  /** What of it is not as it was answered, after a start. */
  wrong(running: readonly Running[], isLast: boolean): Promise<readonly string[]>;
  figures(): Readonly<Record<string, number>>;
}

/** Kills so many times in the middle of writes. After each start all must be as it was answered. */
export async function killAndCheck(place: KilledPlace, writer: Writer, cycles: number): Promise<void> {
  const startsMs: number[] = [];
  const wrong: string[] = [];
  try {
    for (let cycle = 0; ; cycle += 1) {
      const beganMs = performance.now();
      const running = await place.start();
      startsMs.push(performance.now() - beganMs);
      wrong.push(...(await writer.wrong(running, cycle === cycles)));
      if (cycle === cycles) break;
      let [isOver, hasEnded] = [false, false];
      const writing = writer
        .write(running, cycle, () => isOver)
        .finally(() => {
          hasEnded = true;
        });
      await until(() => writer.isDue() || hasEnded, 1);
      await pause(randomInt(writer.laterMsMax ?? 2));
      await place.kill(cycle);
      isOver = true;
      await writing;
    }
    figures(place.store, { ...writer.figures(), wrong: wrong.length });
    timeFigures(`${place.store}: start to ready`, startsMs);
    expect(wrong).toEqual([]);
  } finally {
    await place.close();
  }
}

/** One Keyrun on a data folder. */
export function inFolder(settings: Settings = {}) {
  const folders = createTempFolders();
  const dataDir = folders.create();
  let running: ServingKeyrun | undefined;
  let manager: Running["manager"] | undefined;
  const end = async (signal: "SIGKILL" | "SIGTERM") => {
    manager?.disconnect();
    running?.kill(signal);
    return await running?.exited;
  };
  const startOne = async (more: Settings = {}) => {
    running = await serveKeyrun(dataDir, { KEYRUN_PLAN_LIMITS: "free=100000", ...settings, ...more });
    manager = manage(running.internalUrl, running.serviceToken());
    return { ...running, manager };
  };
  return {
    ...{ store: "embedded store", path: dataDir, startOne, end },
    start: async () => [await startOne()],
    async kill() {
      expect(await end("SIGKILL")).toEqual({ code: null, signal: "SIGKILL" });
    },
    async close() {
      await end("SIGKILL");
      folders.remove();
    },
  } as const satisfies KilledPlace & Record<string, unknown>;
}

/** So many instances, of which one is killed at a time. */
export async function inFleet(size: number, settings: Settings = {}): Promise<KilledPlace> {
  const fleet = await startFleet({ in: "processes", size, settings, started: false });
  let waiting = [...fleet.members];
  const managers = fleet.members.map(({ place }) => fleet.manage(place));
  return {
    store: size === 1 ? "MongoDB" : "one of several on MongoDB",
    path: fleet.joining().KEYRUN_MONGODB_URI ?? "",
    async start() {
      for (const member of waiting) await member.start();
      return fleet.members.map(({ publicUrl, place }) => ({ publicUrl, manager: managers[place]! }));
    },
    async kill(cycle) {
      waiting = [fleet.members[cycle % size]!];
      await waiting[0]!.kill();
    },
    close: fleet.close,
  };
}

const lanesOfKeyrun = 4;

/** Creates keys and revokes two of three. None of what was answered may be lost or revived. */
export function keyWriter(): Writer {
  /** The values of the keys whose creation was acknowledged, by id. */
  const created = new Map<string, string>();
  /** Sent. Without an acknowledgement the key may be in either state. */
  const revoking = new Set<string>();
  const revoked = new Set<string>();
  let unchecked = new Map<string, string>();
  let [teamId, target] = ["", 0];
  const acknowledged = () => created.size + revoked.size;
  const isRight = (id: string, isRevoked: boolean) => (isRevoked ? revoking.has(id) : !revoked.has(id));

  async function some({ keys }: Running["manager"]): Promise<void> {
    for (const isRevoked of [false, true, true]) {
      const { key, value } = await keys.createKey({ teamId });
      const keyId = key?.id ?? "";
      created.set(keyId, value);
      unchecked.set(keyId, value);
      if (!isRevoked) continue;
      revoking.add(keyId);
      await keys.revokeKey({ teamId, keyId });
      revoked.add(keyId);
    }
  }

  /** The acknowledged writes that the list of keys does not show. */
  async function wrongInList({ keys }: Running["manager"]): Promise<string[]> {
    const states = new Map<string, KeyState>();
    let pageToken = "";
    do {
      const page = await keys.listKeys({ teamId, showRevoked: true, pageSize: 100, pageToken });
      for (const { id, state } of page.keys) states.set(id, state);
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
    return [...created.keys()].flatMap((id) => {
      const state = states.get(id);
      if (state === undefined) return [`lost: ${id}`];
      return isRight(id, state === KeyState.REVOKED) ? [] : [`in the wrong state: ${id}`];
    });
  }

  return {
    async write(running, cycle, isOver) {
      unchecked = new Map();
      // Each cycle is killed after a different number of writes, while others are in progress.
      target = acknowledged() + 40 + ((cycle * 29) % 81);
      teamId ||= await running[0]!.manager.newTeam();
      const lane = async ({ manager }: Running) => {
        // A call that fails may or may not have been done.
        while (!isOver()) await some(manager).catch(() => pause(5));
      };
      await Promise.all(running.flatMap((each) => Array.from({ length: lanesOfKeyrun }, () => lane(each))));
    },
    isDue: () => acknowledged() >= target,
    /** Each instance by itself, also the one that has just come back. */
    async wrong(running) {
      if (created.size === 0) return [];
      const wrong = await wrongInList(running[0]!.manager);
      const newest = [...unchecked].find(([id]) => !revoking.has(id));
      for (const { publicUrl, manager } of running) {
        if (newest) expect((await servedRun(publicUrl, { value: newest[1] })).status).toBe(200);
        for (const [id, value] of unchecked) {
          const { verdict } = await manager.keys.verifyKey({ value, cost: 0 });
          const isKnown = verdict === Verdict.VALID || verdict === Verdict.REVOKED;
          if (!isKnown || !isRight(id, verdict === Verdict.REVOKED)) {
            wrong.push(`wrongly accepted or refused: ${id}, verdict ${verdict}`);
          }
        }
      }
      return wrong;
    },
    figures: () => ({ "creations acknowledged": created.size, "revocations acknowledged": revoked.size }),
  };
}
