import { createHash } from "node:crypto";
import { createHmacSha256 } from "./hmac-sha256.ts";

/**
 * The service's secrets, newest first: what makes key digests and id tags, so that who can write the store still
 * can't plant a key. Retiring one means removing it once no key names its version.
 */
export interface ServiceSecrets {
  /** The newest secret's version: what new digests are made with. */
  readonly newestVersion: string;
  readonly versions: readonly string[];
  /** HMAC-SHA-256 (RFC 2104) of the text under the secret of this version; undefined where it is not there. */
  digest(version: string, text: string): Buffer | undefined;
}

/** The secrets as given by the operator: at least one, each at least 32 bytes, newest first. */
export function createServiceSecrets(secrets: readonly Buffer[]): ServiceSecrets {
  const hmacs = new Map(secrets.map((secret) => [versionOf(secret), createHmacSha256(secret)]));
  const versions = [...hmacs.keys()];
  const [newestVersion] = versions;
  if (newestVersion === undefined)
    throw new Error("At least one service secret is needed: set KEYRUN_SECRET.");
  return {
    newestVersion,
    versions,
    digest: (version, text) => hmacs.get(version)?.(text),
  };
}

/** The first 8 hex digits of a digest of the secret: names it in documents without telling anything of it. */
function versionOf(secret: Buffer): string {
  return createHash("sha256").update("keyrun-secret-version:").update(secret).digest("hex").slice(0, 8);
}
