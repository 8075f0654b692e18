import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { ServingKeyrun } from "./keyrun-process.ts";

export interface RevokerData {
  readonly publicUrl: string;
  readonly internalUrl: string;
  readonly serviceToken: string;
}

export interface RevocationOrder {
  readonly teamId: string;
  readonly keyId: string;
  readonly value: string;
}

export type RevokerAnswer = { readonly keyId: string } & (
  | { readonly kind: "revoked" }
  /** What was answered to the uses that were not refused. */
  | { readonly kind: "used"; readonly accepted: readonly string[] }
);

/** Revokes keys in a thread of its own. */
export interface Revocations {
  /** Resolves once the OK has arrived. */
  revoke(order: RevocationOrder): Promise<{
    /** The answers to uses that were sent in the moment of the OK and not refused. */
    readonly acceptedAtOnce: Promise<readonly string[]>;
  }>;
  close(): Promise<unknown>;
}

/** Through how many entries a key is used in the moment of the OK. */
export const usesAtOk = 7;

export async function openRevocations({
  publicUrl,
  internalUrl,
  serviceToken,
}: ServingKeyrun): Promise<Revocations> {
  const workerData: RevokerData = { publicUrl, internalUrl, serviceToken: serviceToken() };
  const worker = new Worker(new URL("revoker.ts", import.meta.url), { workerData });
  await once(worker, "online");
  const told = (keyId: string, kind: RevokerAnswer["kind"]) =>
    new Promise<RevokerAnswer>((resolve, reject) => {
      const take = (answer: RevokerAnswer) => {
        if (answer.keyId !== keyId || answer.kind !== kind) return;
        worker.off("message", take).off("error", reject);
        resolve(answer);
      };
      worker.on("message", take).on("error", reject);
    });
  worker.setMaxListeners(100);
  return {
    async revoke(order) {
      const revoked = told(order.keyId, "revoked");
      const used = told(order.keyId, "used");
      worker.postMessage(order);
      await revoked;
      return { acceptedAtOnce: used.then((answer) => (answer.kind === "used" ? answer.accepted : [])) };
    },
    close: () => worker.terminate(),
  };
}
