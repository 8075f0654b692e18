import { type Failure, failureOf } from "../../api/failure.ts";
import type { Key } from "../../api/messages.ts";

/** The outcome of creating a key. */
export type Creation =
  /** `value` is nowhere else on the page, and can't be read again. */
  | { readonly kind: "created"; readonly key: Key; readonly value: string }
  /** The key exists, but its value didn't arrive. `key` is undefined when it could not be read. */
  | { readonly kind: "lost"; readonly keyId: string; readonly key: Key | undefined }
  | { readonly kind: "failed"; readonly failure: Failure };

export interface CreateKeyRequest {
  readonly teamId: string;
  /** The same for each attempt at one key (AIP-155), so that no attempt makes a second one. */
  readonly requestId: string;
}

/** The calls that creating a key needs. They bypass the query cache, which would keep the value. */
export interface KeyCreator<Request extends CreateKeyRequest> {
  /** Creates a key, or makes the one that replaces another. */
  createKey(request: Request): Promise<{ key?: Key | undefined; value?: string | undefined }>;
  listKeys(request: { teamId: string }): Promise<{ keys?: Key[] }>;
}

/**
 * Creates a key. If the answer was lost, looks for the key among the newest of the team: each names
 * the request that made it.
 */
export async function createKey<Request extends CreateKeyRequest>(
  creator: KeyCreator<Request>,
  request: Request,
): Promise<Creation> {
  try {
    const { key, value } = await creator.createKey(request);
    if (!key || !value) throw new Error("The answer holds no key.");
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

async function findMade(
  creator: Pick<KeyCreator<CreateKeyRequest>, "listKeys">,
  request: CreateKeyRequest,
): Promise<Key | undefined> {
  try {
    const { keys = [] } = await creator.listKeys({ teamId: request.teamId });
    return keys.find((key) => key.requestId === request.requestId);
  } catch {
    // Unknown. The next attempt has the same request id, so its answer will show it.
    return undefined;
  }
}
