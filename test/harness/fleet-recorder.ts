// A thread that makes all requests of a fleet's revocation test, and so orders them on one clock:
// a use is sent after the OK to a revocation if this thread has read that OK before it writes.
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";
import { type FleetAddress, type FleetCaller, fleetEntries, openFleetCaller } from "./fleet-caller.ts";
import type { RecorderAnswer, RecorderCommand, RevokedKey, Tally } from "./fleet-recordings.ts";
import { rawSocket } from "./raw-socket.ts";

const { addresses, pauseMs } = workerData as { addresses: readonly FleetAddress[]; pauseMs: number };
const callers: readonly FleetCaller[] = addresses.map((address) =>
  openFleetCaller(address, { connectionsMax: 512 }),
);

/** Uses of a key at each instance that must be answered before its revocation, and after. */
const usesAround = 2;

interface UsedKey extends RevokedKey {
  askedAt: number;
  okAt: number;
  /** The OK came while the place that stands still did so, and not to a later try. */
  okAtFirst: boolean;
  /** Answers by place: accepted before the revocation, and of any kind after the OK. */
  readonly accepted: number[];
  readonly answered: number[];
  readonly atOk: Promise<unknown>[];
}

interface Batch {
  readonly keys: readonly UsedKey[];
  readonly tally: Tally;
  readonly lanes: Promise<unknown>[];
  readonly warm: PromiseWithResolvers<void>;
  /** The place that stood still from before the revocation until after its OK. */
  stopped?: number;
  parked: { readonly key: UsedKey; readonly send: () => void; readonly answer: Promise<string> }[];
  /** How often revocations were asked for. */
  rounds: number;
  ending: boolean;
}

const batches = new Map<number, Batch>();

async function begin(id: number, keys: readonly RevokedKey[]): Promise<void> {
  const batch: Batch = {
    keys: keys.map((key) => ({
      ...key,
      askedAt: Number.POSITIVE_INFINITY,
      okAt: Number.POSITIVE_INFINITY,
      okAtFirst: false,
      accepted: addresses.map(() => 0),
      answered: addresses.map(() => 0),
      atOk: [],
    })),
    tally: { before: 0, inFlight: 0, after: 0, parked: 0, unavailable: 0, lost: 0, wrong: [] },
    lanes: [],
    warm: Promise.withResolvers(),
    parked: [],
    rounds: 0,
    ending: false,
  };
  batches.set(id, batch);
  for (const key of batch.keys) {
    for (const place of addresses.keys()) batch.lanes.push(lane(batch, key, place));
  }
  await batch.warm.promise;
}

/** Uses a key at one instance, one use after the other, through one entry after the other. */
async function lane(batch: Batch, key: UsedKey, place: number): Promise<void> {
  for (let turn = place; !batch.ending || (key.answered[place] ?? 0) < usesAround; turn += 1) {
    await use(batch, key, { place, entry: turn });
    if (batch.keys.every(({ accepted }) => accepted.every((n) => n >= usesAround))) batch.warm.resolve();
    await pause(pauseMs);
  }
}

async function use(batch: Batch, key: UsedKey, { place, entry }: { place: number; entry: number }) {
  const name = fleetEntries[entry % fleetEntries.length]!;
  const sentAt = performance.now();
  const { outcome, body } = await callers[place]!.use(name, key.value);
  const answeredAt = performance.now();
  const { tally } = batch;
  const after = sentAt > key.okAt;
  const wrong = (words: string) =>
    tally.wrong.push(`${words}: ${name} at ${place}, sent ${(sentAt - key.okAt).toFixed(1)} ms after the OK`);
  if (after && outcome !== "lost") key.answered[place]! += 1;
  if (after) tally.after += 1;
  if (outcome === "unavailable") tally.unavailable += 1;
  if (outcome === "lost") tally.lost += 1;
  if (outcome === "other" || outcome === "limited") wrong(`answered ${body.slice(0, 200)}`);
  if (outcome === "revoked" && answeredAt < key.askedAt) wrong("refused before the revocation");
  if (outcome !== "accepted") return;
  if (after) wrong("ACCEPTED AFTER THE OK");
  else if (answeredAt < key.okAt) {
    key.accepted[place]! += 1;
    tally.before += 1;
  } else if (place === batch.stopped && key.okAtFirst) wrong("ACCEPTED WHEN RELEASED AFTER THE OK");
  else tally.inFlight += 1;
}

/** Asks for the revocation of each key that has no OK yet. Each answer counts on its own. */
async function revoke(batch: Batch, via: readonly number[] | undefined, inTurn: boolean) {
  const left = batch.keys.filter(({ okAt }) => okAt === Number.POSITIVE_INFINITY);
  const answers: { status: number; ms: number; body: string }[] = [];
  batch.rounds += 1;
  const one = async (key: UsedKey) => {
    const places = via ?? key.via;
    answers.push(...(await Promise.all(places.map((place) => revokeAt(batch, key, place)))));
  };
  if (inTurn) for (const key of left) await one(key);
  else await Promise.all(left.map(one));
  return answers;
}

async function revokeAt(batch: Batch, key: UsedKey, place: number) {
  const { teamId, keyId } = key;
  const sentAt = performance.now();
  key.askedAt = Math.min(key.askedAt, sentAt);
  const { status, body } = await callers[place]!.call("KeyService/RevokeKey", { teamId, keyId });
  const now = performance.now();
  if (status === 200) {
    key.okAt = Math.min(key.okAt, now);
    key.okAtFirst ||= batch.rounds === 1;
    // At once, through all entries of all instances.
    for (const at of addresses.keys()) {
      for (const entry of fleetEntries.keys()) key.atOk.push(use(batch, key, { place: at, entry }));
    }
  }
  return { status, ms: now - sentAt, body: status === 200 ? "" : body.slice(0, 300) };
}

/** Opens a connection for each key, on which the instance has already answered once. */
async function openParked(batch: Batch, place: number): Promise<void> {
  batch.stopped = place;
  const { publicUrl } = addresses[place]!;
  batch.parked = await Promise.all(
    batch.keys.map(async (key) => {
      const { socket, send, heard, until } = rawSocket({ port: Number(new URL(publicUrl).port) });
      await once(socket, "connect");
      send("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
      await until((text) => text.endsWith("ok\n"));
      const start = heard().length;
      const answered = Promise.withResolvers<string>();
      const request =
        `POST /api/apps/echo/run HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key.value}\r\n` +
        'Content-Type: application/json\r\nContent-Length: 12\r\n\r\n{"text":"x"}';
      return {
        key,
        send() {
          send(request);
          until((text) => text.slice(start).includes("\r\n\r\n"))
            .then((text) => answered.resolve(text.slice(start)), answered.reject)
            .finally(() => socket.destroy());
        },
        answer: answered.promise,
      };
    }),
  );
}

/** Stops the load once every key was answered at every instance after its OK. */
async function end(batch: Batch): Promise<Tally> {
  for (const { key, answer } of batch.parked) {
    const text = await answer;
    // Without an OK before it was released, it may be accepted.
    if (!key.okAtFirst) continue;
    batch.tally.parked += 1;
    if (!/^HTTP\/1\.1 (401|503) /.test(text))
      batch.tally.wrong.push(`a parked request got ${text.slice(0, 100)}`);
  }
  batch.ending = true;
  await Promise.all(batch.lanes);
  await Promise.all(batch.keys.flatMap(({ atOk }) => atOk));
  return batch.tally;
}

async function obey(command: RecorderCommand): Promise<unknown> {
  if (command.do === "begin") return begin(command.batch, command.keys);
  const batch = batches.get(command.batch)!;
  if (command.do === "openParked") return openParked(batch, command.place);
  if (command.do === "sendParked") return batch.parked.forEach(({ send }) => void send());
  if (command.do === "revoke") return revoke(batch, command.via, command.inTurn ?? false);
  batches.delete(command.batch);
  return end(batch);
}

parentPort?.on("message", async (command: RecorderCommand) => {
  const answer: RecorderAnswer = await obey(command).then(
    (result) => ({ id: command.id, result }),
    (error) => ({ id: command.id, error: String(error) }),
  );
  parentPort?.postMessage(answer);
});
