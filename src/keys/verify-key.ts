import { timingSafeEqual } from "node:crypto";
import { invalidKey, type KeyEvidence, type VerifyKey, verdictOf } from "../auth/key-evidence.ts";
import type { Clock } from "../base/clock.ts";
import type { RecordSource } from "../cache/record-source.ts";
import type { KeyForm } from "./key-value.ts";
import { createProvenValues } from "./proven-values.ts";
import type { ServiceSecrets } from "./service-secrets.ts";

/**
 * Makes the verifier. A cached key costs one HMAC and no read of the store, or one hash where the
 * value was proven before. A value that its form rules out costs neither. All refusals but a proven
 * revocation or expiry look the same and take the same time, so that nobody learns which ids exist.
 */
export function createVerifyKey(parts: {
  clock: Pick<Clock, "unixMs">;
  form: KeyForm;
  secrets: ServiceSecrets;
  evidence: RecordSource<KeyEvidence>;
}): VerifyKey {
  const { clock, form, secrets, evidence } = parts;
  const proven = createProvenValues(secrets);
  const verdictFor = (value: string, found: KeyEvidence | null | undefined) => {
    if (proven.has(found, value) && found) return verdictOf(found, clock);
    if (!matchesDigest(secrets, value, found) || !found) return invalidKey;
    proven.add(found, value);
    return verdictOf(found, clock);
  };

  return (value, caller, guard) => {
    const keyId = form.idIn(value);
    if (keyId === undefined) return invalidKey;
    const cached = evidence.peek(keyId);
    if (cached) return verdictFor(value, cached);
    // An absent id is invalid whatever its form. This comes before the check of the tag, whose HMAC
    // costs more.
    if (cached === null || !form.isWellFormed(value)) return invalidKey;
    return guard(caller.address, async () => verdictFor(value, await evidence.load(keyId)));
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
