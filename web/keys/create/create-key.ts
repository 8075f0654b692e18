import type { Key } from "#gen/keyrun/v1/key_pb.ts";
import { type Failure, failureOf } from "../../api/failure.ts";

/** What came of asking for a key. */
export type Creation =
  /** `value` is in no other place of the page, and can't be read again. */
  | { readonly kind: "created"; readonly key: Key; readonly value: string }
  /** The key exists, but its value did not come here. `key` is undefined where it could not be read. */
  | { readonly kind: "lost"; readonly keyId: string; readonly key: Key | undefined }
  | { readonly kind: "failed"; readonly failure: Failure };

export interface CreateKeyRequest {
  readonly teamId: string;
  readonly label: string;
  /** The same for every attempt at one key (AIP-155), so that no attempt makes a second one. */
  readonly requestId: string;
}

/** The calls that creating a key takes. They go past the query cache, which would keep the value. */
export interface KeyCreator {
  createKey(request: CreateKeyRequest): Promise<{ key?: Key | undefined; value: string }>;
  listKeys(request: { teamId: string }): Promise<{ keys: Key[] }>;
}

/**
 * Creates a key. Where the answer was lost, looks whether the key was made all the same: the newest keys of the
 * team name the request that made them.
 */
export async function createKey(creator: KeyCreator, request: CreateKeyRequest): Promise<Creation> {
  try {
    const { key, value } = await creator.createKey(request);
    if (key === undefined) throw new Error("The answer holds no key.");
    return { kind: "created", key, value };
  } catch (thrown) {
    const failure = failureOf(thrown);
    const usedBy = failure.reason === "REQUEST_ID_USED" ? failure.metadata.key_id : undefined;
    if (usedBy === undefined && !failure.mayHaveHappened) return { kind: "failed", failure };
    const key = await findMade(creator, request);
    const keyId = key?.id ?? usedBy;
    return keyId === undefined ? { kind: "failed", failure } : { kind: "lost", keyId, key };
  }
}

async function findMade(creator: KeyCreator, request: CreateKeyRequest): Promise<Key | undefined> {
  try {
    const { keys } = await creator.listKeys({ teamId: request.teamId });
    return keys.find((key) => key.requestId === request.requestId);
  } catch {
    // Not known: the next attempt carries the same request id, and will tell.
    return undefined;
  }
}
