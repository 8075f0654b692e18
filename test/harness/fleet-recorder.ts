// A thread that makes all requests of a revocation test, and so orders them on one clock: a use is
// sent after the OK to a revocation if this thread has read that OK before it writes.
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { workerData } from "node:worker_threads";
import { type FleetAddress, type FleetCaller, type FleetEntry, openFleetCaller } from "./fleet-caller.ts";
import { rawSocket } from "./raw-socket.ts";
import { serveThread } from "./thread.ts";

export interface RecorderData {
  readonly addresses: readonly FleetAddress[];
  /** Through which each key is used. */
  readonly entries: readonly FleetEntry[];
  /** Uses of a key at one address at the same time, and how long each rests until the next one. */
  readonly lanes: number;
  readonly pauseMs: number;
  /** Uses of a key at each address that must be accepted before its OK, and refused after. */
  readonly usesAround: number;
}

const { addresses, entries, lanes, pauseMs, usesAround } = workerData as RecorderData;
const callers: readonly FleetCaller[] = addresses.map((address) =>
  openFleetCaller(address, { connectionsMax: 512 }),
);

export interface RevokedKey {
  readonly teamId: string;
  readonly keyId: string;
  readonly value: string;
  /** The places of the instances that are asked to revoke it, at the same time. */
  readonly via: readonly number[];
}

/** What was seen of the keys of one batch. */
export interface Tally {
  /** Accepted uses that were answered before the OK. */
  before: number;
  /** Accepted uses that were sent before the OK and answered after it. */
  inFlight: number;
  /** Uses that were sent before the OK and answered after it, accepted or not. */
  crossed: number;
  /** Uses sent after the OK. */
  after: number;
  /** Requests that lay in the socket of a stopped instance until after the OK. */
  parked: number;
  unavailable: number;
  lost: number;
  /** What must not happen, in words. */
  readonly wrong: string[];
}

export interface RevokeAnswer {
  readonly status: number;
  readonly ms: number;
  readonly body: string;
}

interface UsedKey extends RevokedKey {
  askedAt: number;
  okAt: number;
  /** The OK came while the place that stands still did so, and not to a later try. */
  okAtFirst: boolean;
  /** Answers by place: accepted before the OK, and refused as revoked after it. */
  readonly accepted: number[];
  readonly refused: number[];
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

const batches: Batch[] = [];

/** Resolves with the number of the batch, once every address has accepted each key. */
async function begin(keys: readonly RevokedKey[]): Promise<number> {
  const batch: Batch = {
    keys: keys.map((key) => ({
      ...key,
      askedAt: Number.POSITIVE_INFINITY,
      okAt: Number.POSITIVE_INFINITY,
      okAtFirst: false,
      accepted: addresses.map(() => 0),
      refused: addresses.map(() => 0),
      atOk: [],
    })),
    tally: { before: 0, inFlight: 0, crossed: 0, after: 0, parked: 0, unavailable: 0, lost: 0, wrong: [] },
    lanes: [],
    warm: Promise.withResolvers(),
    parked: [],
    rounds: 0,
    ending: false,
  };
  for (const key of batch.keys) {
    for (const place of addresses.keys()) {
      for (let n = 0; n < lanes; n += 1) batch.lanes.push(lane(batch, key, { place, first: place + n }));
    }
  }
  await batch.warm.promise;
  return batches.push(batch) - 1;
}

/** Uses a key at one instance, one use after the other, through one entry after the other. */
async function lane(batch: Batch, key: UsedKey, { place, first }: { place: number; first: number }) {
  for (let turn = first; !batch.ending || (key.refused[place] ?? 0) < usesAround; turn += 1) {
    await use(batch, key, { place, entry: turn });
    if (batch.keys.every(({ accepted }) => accepted.every((n) => n >= usesAround))) batch.warm.resolve();
    await pause(pauseMs);
  }
}

async function use(batch: Batch, key: UsedKey, { place, entry }: { place: number; entry: number }) {
  const name = entries[entry % entries.length]!;
  const sentAt = performance.now();
  const { outcome, body } = await callers[place]!.use(name, key.value);
  const answeredAt = performance.now();
  const { tally } = batch;
  const after = sentAt > key.okAt;
  const wrong = (words: string) =>
    tally.wrong.push(`${words}: ${name} at ${place}, sent ${(sentAt - key.okAt).toFixed(1)} ms after the OK`);
  if (after && outcome === "revoked") key.refused[place]! += 1;
  if (after) tally.after += 1;
  else if (answeredAt > key.okAt) tally.crossed += 1;
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

/**
 * Asks for the revocation of each key that has no OK yet. Resolves with all answers: also failures,
 * after which it may be called again.
 */
async function revoke(
  batch: Batch,
  { via, inTurn = false }: { via?: readonly number[]; inTurn?: boolean } = {},
): Promise<RevokeAnswer[]> {
  const left = batch.keys.filter(({ okAt }) => okAt === Number.POSITIVE_INFINITY);
  const answers: RevokeAnswer[] = [];
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
      for (const entry of entries.keys()) key.atOk.push(use(batch, key, { place: at, entry }));
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

/** Ends the load once every instance has refused uses of each key that were sent after its OK. */
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

const batchOf = (id: number) => batches[id]!;
const api = {
  begin,
  /** Opens a connection for each key to this instance, which the test then stops. */
  openParked: (id: number, place: number) => openParked(batchOf(id), place),
  /** Writes a request to each of them. */
  sendParked: (id: number) => batchOf(id).parked.forEach(({ send }) => void send()),
  revoke: (id: number, how?: Parameters<typeof revoke>[1]) => revoke(batchOf(id), how),
  end: (id: number) => end(batchOf(id)),
};

export type RecorderApi = typeof api;

serveThread(api);
