import { createHash } from "node:crypto";
import { createHmacSha256 } from "./hmac-sha256.ts";

/**
 * The service's secrets, newest first. They make key digests and id tags, so that somebody who can
 * write to the store still can't plant a key. To retire a secret, remove it once no key names its
 * version.
 */
export interface ServiceSecrets {
  /** The version of the newest secret, which makes new digests. */
  readonly newestVersion: string;
  readonly versions: readonly string[];
  /**
   * HMAC-SHA-256 (RFC 2104) of the text under the secret of this version; undefined where there is
   * no such secret.
   */
  digest(version: string, text: string): Buffer | undefined;
  /** The same under the newest secret. */
  digestNewest(text: string): Buffer;
}

/**
 * `secrets` are the operator's, newest first, each at least 32 bytes. Throws where there is none.
 */
export function createServiceSecrets(secrets: readonly Buffer[]): ServiceSecrets {
  const hmacs = new Map(secrets.map((secret) => [versionOf(secret), createHmacSha256(secret)]));
  const [newest] = hmacs;
  if (!newest) throw new Error("At least one service secret is needed: set KEYRUN_SECRET.");
  const [newestVersion, digestNewest] = newest;
  return {
    newestVersion,
    versions: [...hmacs.keys()],
    digest: (version, text) => hmacs.get(version)?.(text),
    digestNewest,
  };
}

/**
 * The first 8 hex digits of a digest of the secret. They name the secret in records and reveal
 * nothing of it.
 */
function versionOf(secret: Buffer): string {
  return createHash("sha256").update("keyrun-secret-version:").update(secret).digest("hex").slice(0, 8);
}
