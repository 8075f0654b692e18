import { timingSafeEqual } from "node:crypto";
import type { KeyEvidence, KeyVerdict, VerifyKey } from "../auth/key-evidence.ts";
import type { KeyForm } from "./key-value.ts";
import type { ServiceSecrets } from "./service-secrets.ts";

/** Where evidence is found: a cache above the store. */
export interface EvidenceSource {
  /** What is held in memory: the evidence, null for an id known to be absent, undefined where the store must be read. */
  peek(keyId: string): KeyEvidence | null | undefined;
  load(keyId: string): Promise<KeyEvidence | undefined>;
}

/**
 * Makes the verifier. A cached key costs one HMAC and no read; a value refused by its form costs neither. All
 * refusals but a proven revocation look alike and take alike, so that nobody learns which ids exist.
 */
export function createVerifyKey(parts: {
  form: KeyForm;
  secrets: ServiceSecrets;
  evidence: EvidenceSource;
}): VerifyKey {
  const { form, secrets, evidence } = parts;
  const judge = (value: string, found: KeyEvidence | null | undefined) => judgeKey(secrets, value, found);

  return (value, { address, guard }) => {
    const keyId = form.idIn(value);
    if (keyId === undefined) return { kind: "invalid" };
    const held = evidence.peek(keyId);
    if (held) return judge(value, held);
    // An absent id is invalid whatever its form: asked before the tag, whose HMAC costs more.
    if (held === null || !form.isWellFormed(value)) return { kind: "invalid" };
    return guard(address, async () => judge(value, await evidence.load(keyId)));
  };
}

const noDigest = Buffer.alloc(32);

function judgeKey(secrets: ServiceSecrets, value: string, found: KeyEvidence | null | undefined): KeyVerdict {
  // Hashed and compared for an unknown id too: the time must not tell.
  const presented = secrets.digest(found?.secretVersion ?? secrets.newestVersion, value);
  const matches = timingSafeEqual(presented ?? noDigest, found?.digest ?? noDigest);
  if (!found || !presented || !matches) return { kind: "invalid" };
  const { id: keyId, teamId, revokeTimeMs } = found;
  return revokeTimeMs === null
    ? { kind: "valid", keyId, teamId }
    : { kind: "revoked", keyId, teamId, revokeTimeMs };
}
