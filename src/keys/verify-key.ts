import { timingSafeEqual } from "node:crypto";
import type { KeyEvidence, KeyVerdict, VerifyKey } from "../auth/key-evidence.ts";
import type { RecordSource } from "../cache/record-source.ts";
import type { KeyForm } from "./key-value.ts";
import { createProvenValues } from "./proven-values.ts";
import type { ServiceSecrets } from "./service-secrets.ts";

/**
 * Makes the verifier. A cached key costs one HMAC and no read of the store, or one hash where the
 * value was proven before. A value that its form rules out costs neither. All refusals but a proven
 * revocation look the same and take the same time, so that nobody learns which ids exist.
 */
export function createVerifyKey(parts: {
  form: KeyForm;
  secrets: ServiceSecrets;
  evidence: RecordSource<KeyEvidence>;
}): VerifyKey {
  const { form, secrets, evidence } = parts;
  const proven = createProvenValues(secrets);
  const verdictFor = (value: string, found: KeyEvidence | null | undefined) => {
    if (proven.has(found, value) && found) return verdictOf(found);
    if (!matches(secrets, value, found) || !found) return invalid;
    proven.add(found, value);
    return verdictOf(found);
  };

  return (value, caller, guard) => {
    const keyId = form.idIn(value);
    if (keyId === undefined) return invalid;
    const cached = evidence.peek(keyId);
    if (cached) return verdictFor(value, cached);
    // An absent id is invalid whatever its form. This comes before the check of the tag, whose HMAC
    // costs more.
    if (cached === null || !form.isWellFormed(value)) return invalid;
    return guard(caller.address, async () => verdictFor(value, await evidence.load(keyId)));
  };
}

const invalid: KeyVerdict = Object.freeze({ kind: "invalid" });
const noDigest = Buffer.alloc(32);

/** Hashes and compares for an unknown id too: the time must not reveal whether the id exists. */
function matches(secrets: ServiceSecrets, value: string, found: KeyEvidence | null | undefined): boolean {
  const presented = secrets.digest(found?.secretVersion ?? secrets.newestVersion, value);
  const equal = timingSafeEqual(presented ?? noDigest, found?.digest ?? noDigest);
  return presented !== undefined && equal;
}

function verdictOf({ id: keyId, teamId, revokeTimeMs }: KeyEvidence): KeyVerdict {
  return revokeTimeMs === null
    ? { kind: "valid", keyId, teamId }
    : { kind: "revoked", keyId, teamId, revokeTimeMs };
}
