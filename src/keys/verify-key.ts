import { timingSafeEqual } from "node:crypto";
import type { KeyEvidence, KeyVerdict, VerifyKey } from "../auth/key-evidence.ts";
import type { KeyForm } from "./key-value.ts";
import { createProvenValues } from "./proven-values.ts";
import type { ServiceSecrets } from "./service-secrets.ts";

/** Where evidence is found: a cache above the store. */
export interface EvidenceSource {
  /** What is held in memory: the evidence, null for an id known to be absent, undefined where the store must be read. */
  peek(keyId: string): KeyEvidence | null | undefined;
  load(keyId: string): Promise<KeyEvidence | undefined>;
}

/**
 * Makes the verifier. A cached key costs one HMAC and no read, or one hash where it was proven before; a value refused by its form costs neither. All
 * refusals but a proven revocation look alike and take alike, so that nobody learns which ids exist.
 */
export function createVerifyKey(parts: {
  form: KeyForm;
  secrets: ServiceSecrets;
  evidence: EvidenceSource;
}): VerifyKey {
  const { form, secrets, evidence } = parts;
  const proven = createProvenValues(secrets);
  const judge = (value: string, found: KeyEvidence | null | undefined) => {
    if (proven.has(found, value) && found) return verdictOf(found);
    if (!matches(secrets, value, found) || !found) return invalid;
    proven.add(found, value);
    return verdictOf(found);
  };

  return (value, caller, guard) => {
    const keyId = form.idIn(value);
    if (keyId === undefined) return invalid;
    const held = evidence.peek(keyId);
    if (held) return judge(value, held);
    // An absent id is invalid whatever its form: asked before the tag, whose HMAC costs more.
    if (held === null || !form.isWellFormed(value)) return invalid;
    return guard(caller.address, async () => judge(value, await evidence.load(keyId)));
  };
}

const invalid: KeyVerdict = Object.freeze({ kind: "invalid" });
const noDigest = Buffer.alloc(32);

/** Hashes and compares for an unknown id too: the time must not tell. */
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
