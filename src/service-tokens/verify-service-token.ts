import type { NamedService, ServiceTokenVerdict, VerifyServiceToken } from "../auth/require-service.ts";
import type { RecordSource } from "../cache/record-source.ts";
import { createKeyForm, type KeyForm } from "../keys/key-value.ts";
import type { ServiceSecrets } from "../keys/service-secrets.ts";
import { createVerifiedValues, matchesDigest } from "../keys/verify-key.ts";
import { serviceTokenPrefix } from "../log/redaction.ts";
import type { ServiceTokenRecord } from "./service-token-store.ts";

/**
 * What the store says of a token, as far as verifying needs it. The cache of service tokens holds
 * it.
 */
export interface ServiceTokenEvidence {
  readonly service: NamedService;
  readonly digest: Buffer;
  readonly secretVersion: string;
  readonly revokeTimeMs: number | null;
  /** This evidence is void where its version is below the token's floor. */
  readonly version: number;
}

/** The part of a stored token that verifying needs. */
export function evidenceOf(token: ServiceTokenRecord): ServiceTokenEvidence {
  const { id, name, role, teamIds, digest, secretVersion, revokeTimeMs, version } = token;
  const service = { id, name, role, teamIds };
  return { service, digest: Buffer.from(digest, "base64url"), secretVersion, revokeTimeMs, version };
}

/** The form of a service token is that of a key, with tags and a prefix that no key can have. */
export function createServiceTokenForm(secrets: ServiceSecrets): KeyForm {
  return createKeyForm(serviceTokenPrefix, secrets, "keyrun-service-token-id:");
}

/** Whether the text begins as the tokens that `service-tokens create` makes. */
export function isNamedToken(text: string): boolean {
  return text.startsWith(`${serviceTokenPrefix}_`);
}

/**
 * Makes the verifier. The token of the settings costs what `isLocal` costs. A cached token costs
 * one HMAC and no read of the store, or one hash where it was proven before. What its form rules
 * out costs neither. All refusals but a proven revocation look the same and take the same time, so
 * that nobody learns which ids exist. `onUse` is called with the id of an accepted token.
 */
export function createVerifyServiceToken(parts: {
  readonly isLocal: (presented: string) => boolean;
  readonly form: KeyForm;
  readonly secrets: ServiceSecrets;
  readonly evidence: RecordSource<ServiceTokenEvidence>;
  readonly onUse: (tokenId: string) => void;
}): VerifyServiceToken {
  const { isLocal, form, secrets, evidence, onUse } = parts;
  const proven = createVerifiedValues(secrets);

  function verdictFor(value: string, found: ServiceTokenEvidence | undefined): ServiceTokenVerdict {
    if (!proven.has(found, value) || !found) {
      if (!matchesDigest(secrets, value, found) || !found) return invalid;
      proven.add(found, value);
    }
    if (found.revokeTimeMs !== null) return revoked;
    onUse(found.service.id);
    return { kind: "named", service: found.service };
  }

  return (presented) => {
    if (!isNamedToken(presented)) return isLocal(presented) ? local : invalid;
    const tokenId = form.idIn(presented);
    if (tokenId === undefined) return invalid;
    const cached = evidence.peek(tokenId);
    if (cached) return verdictFor(presented, cached);
    if (cached === null || !form.isWellFormed(presented)) return invalid;
    return evidence.load(tokenId).then((found) => verdictFor(presented, found));
  };
}

const local: ServiceTokenVerdict = Object.freeze({ kind: "local" });
const revoked: ServiceTokenVerdict = Object.freeze({ kind: "revoked" });
const invalid: ServiceTokenVerdict = Object.freeze({ kind: "invalid" });
