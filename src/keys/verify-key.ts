import { hash, timingSafeEqual } from "node:crypto";
import {
  invalidKey,
  type KeyEvidence,
  type KeyRestrictions,
  type KeyVerifier,
  verdictOf,
} from "../auth/key-evidence.ts";
import type { Clock } from "../base/clock.ts";
import type { RecordSource } from "../cache/record-source.ts";
import type { FlooredChange } from "../fleet/security-state.ts";
import type { KeyRecord } from "./key-store.ts";
import type { KeyForm } from "./key-value.ts";
import type { ServiceSecrets } from "./service-secrets.ts";

/**
 * Makes the verifier. A cached key costs one HMAC and no read of the store, or one hash where the
 * value was proven before. A value that its form rules out costs neither. All refusals but a proven
 * revocation or expiry look the same and take the same time, so that nobody learns which ids exist.
 */
export function createKeyVerifier(parts: {
  clock: Pick<Clock, "unixMs">;
  form: KeyForm;
  secrets: ServiceSecrets;
  evidence: RecordSource<KeyEvidence>;
}): KeyVerifier {
  const { clock, form, secrets, evidence } = parts;
  const verified = createVerifiedValues(secrets);
  const verdictFor = (value: string, found: KeyEvidence | null | undefined) => {
    if (verified.has(found, value) && found) return verdictOf(found, clock);
    if (!matchesDigest(secrets, value, found) || !found) return invalidKey;
    verified.add(found, value);
    return verdictOf(found, clock);
  };

  return {
    peek(value) {
      const keyId = form.idIn(value);
      if (keyId === undefined) return invalidKey;
      const cached = evidence.peek(keyId);
      if (cached) return verdictFor(value, cached);
      // An absent id is invalid whatever its form. This comes before the check of the tag, whose
      // HMAC costs more.
      return cached === null || !form.isWellFormed(value) ? invalidKey : undefined;
    },
    async load(value, caller, guard) {
      const keyId = form.idIn(value);
      if (keyId === undefined) return invalidKey;
      return await guard(caller.address, async () => verdictFor(value, await evidence.load(keyId)));
    },
  };
}

const noDigest = Buffer.alloc(32);

/**
 * Whether the value has the stored digest. Hashes and compares for an unknown id too: the time must
 * not reveal whether the id exists.
 */
export function matchesDigest(
  secrets: ServiceSecrets,
  value: string,
  found: Pick<KeyEvidence, "digest" | "secretVersion"> | null | undefined,
): boolean {
  const presented = secrets.digest(found?.secretVersion ?? secrets.newestVersion, value);
  const equal = timingSafeEqual(presented ?? noDigest, found?.digest ?? noDigest);
  return presented !== undefined && equal;
}

/**
 * The values that matched the evidence of a key or a service token before. The same one comes again
 * and again, and this makes checking it again cheaper.
 */
interface VerifiedValues {
  /**
   * Whether exactly this evidence has proven this value. Takes the same time where it has not, or
   * where there is no evidence.
   */
  has(evidence: object | null | undefined, value: string): boolean;
  /** Call it once the evidence's digest matched. */
  add(evidence: object, value: string): void;
}

/**
 * Remembers a value as SHA-256 over a salt and the value: one hash, where its HMAC takes two. The
 * salt is made from the service secret, so the hash reveals no more than the digest beside it. The
 * salt is never stored. An entry lives only as long as its evidence: after a revocation, or when
 * the evidence expires, the value must be proven anew.
 */
export function createVerifiedValues(secrets: ServiceSecrets): VerifiedValues {
  const salt = secrets.digestNewest("keyrun-proven-value:").toString("base64url");
  const hashOf = (value: string) => hash("sha256", salt + value);
  const proven = new WeakMap<object, Buffer>();
  const presented = Buffer.alloc(hashCharacters);

  return {
    has(evidence, value) {
      presented.write(hashOf(value), "latin1");
      return timingSafeEqual(presented, (evidence && proven.get(evidence)) ?? noHash);
    },
    add: (evidence, value) => void proven.set(evidence, keptBuffer(hashOf(value), "latin1")),
  };
}

/** Hashes are hexadecimal text, so zero bytes match no hash. */
const hashCharacters = 64;
const noHash = Buffer.alloc(hashCharacters);

/** The key as a change of what caches hold. */
export function changedKey(key: KeyRecord): FlooredChange<KeyEvidence> {
  return { id: key.id, version: key.version, teamId: key.teamId, value: evidenceOf(key) };
}

/** The part of a stored key that verifying needs. */
export function evidenceOf(key: KeyRecord): KeyEvidence {
  const { id, teamId, secretVersion, revokeTimeMs, expireTimeMs, replacedByKeyId, version } = key;
  return {
    id,
    teamId,
    secretVersion,
    revokeTimeMs,
    expireTimeMs,
    version,
    firstKeyId: key.firstKeyId ?? id,
    digest: keptBuffer(key.digest, "base64url"),
    restrictions: restrictionsOf(key),
    isExpired: key.expiredTimeMs !== null,
    isPending: key.pendingSinceMs !== null,
    end:
      expireTimeMs === null
        ? undefined
        : {
            timeMs: expireTimeMs,
            time: new Date(expireTimeMs).toISOString(),
            isReplaced: replacedByKeyId !== null,
          },
  };
}

/**
 * The bytes of a text, in memory of their own. `Buffer.from` puts a short text into the 64 KiB that
 * Node shares out, and one that is kept keeps all of them: 66 KB for each cached key.
 */
export function keptBuffer(text: string, encoding: BufferEncoding): Buffer {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text, encoding));
  bytes.write(text, encoding);
  return bytes;
}

function restrictionsOf({ appIds, requestsPerMinute, quota }: KeyRecord): KeyRestrictions | null {
  const isFree = appIds.length === 0 && requestsPerMinute === null && quota === null;
  return isFree ? null : { appIds, requestsPerMinute, quota };
}
