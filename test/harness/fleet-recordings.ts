import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { FleetAddress } from "./fleet-caller.ts";

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
  /** Uses sent after the OK. */
  after: number;
  /** Requests that lay in the socket of a stopped instance until after the OK. */
  parked: number;
  unavailable: number;
  lost: number;
  /** What must not happen, in words. */
  readonly wrong: string[];
}

export type RecorderCommand = { readonly id: number; readonly batch: number } & (
  | { readonly do: "begin"; readonly keys: readonly RevokedKey[] }
  | { readonly do: "openParked"; readonly place: number }
  | { readonly do: "sendParked" }
  | { readonly do: "revoke"; readonly via?: readonly number[]; readonly inTurn?: boolean }
  | { readonly do: "end" }
);

export type RecorderAnswer = { readonly id: number } & (
  | { readonly result: unknown }
  | { readonly error: string }
);

export interface RevokeAnswer {
  readonly status: number;
  readonly ms: number;
  readonly body: string;
}

/** Keys that are used at every instance, revoked, and used on. */
export interface RecordedBatch {
  /** Opens a connection for each key to this instance, which the test then stops. */
  openParked(place: number): Promise<void>;
  /** Writes a request to each of them. */
  sendParked(): Promise<void>;
  /** Resolves with all answers: also failures, after which it may be called again. */
  revoke(how?: { via?: readonly number[]; inTurn?: boolean }): Promise<readonly RevokeAnswer[]>;
  /** Resolves once every instance has answered uses of each key that were sent after its OK. */
  end(): Promise<Tally>;
}

export interface FleetRecorder {
  /** Resolves once every instance has accepted each key. */
  begin(keys: readonly RevokedKey[]): Promise<RecordedBatch>;
  close(): Promise<unknown>;
}

/** A recorder in a thread of its own. Each key rests for `pauseMs` between two uses at a place. */
export async function openFleetRecorder(
  addresses: readonly FleetAddress[],
  { pauseMs }: { pauseMs: number },
): Promise<FleetRecorder> {
  const workerData = { addresses, pauseMs };
  const worker = new Worker(new URL("fleet-recorder.ts", import.meta.url), { workerData });
  await once(worker, "online");
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  worker.on("message", (answer: RecorderAnswer) => {
    if ("error" in answer) waiting.get(answer.id)?.reject(new Error(answer.error));
    else waiting.get(answer.id)?.resolve(answer.result);
    waiting.delete(answer.id);
  });
  worker.on("error", (error) => {
    for (const each of waiting.values()) each.reject(error);
  });
  let ids = 0;
  const tell = (command: Record<string, unknown>): Promise<unknown> => {
    const id = ids++;
    const answer = Promise.withResolvers<unknown>();
    waiting.set(id, answer);
    worker.postMessage({ ...command, id });
    return answer.promise;
  };
  let batches = 0;
  return {
    async begin(keys) {
      const batch = batches++;
      await tell({ do: "begin", batch, keys });
      return {
        openParked: async (place) => void (await tell({ do: "openParked", batch, place })),
        sendParked: async () => void (await tell({ do: "sendParked", batch })),
        revoke: async (how = {}) => (await tell({ do: "revoke", batch, ...how })) as RevokeAnswer[],
        end: async () => (await tell({ do: "end", batch })) as Tally,
      };
    },
    close: () => worker.terminate(),
  };
}
