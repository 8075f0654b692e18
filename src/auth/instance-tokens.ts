/**
 * The tokens that are no key and no session: what instances of a fleet show each other, and the
 * check of the token in the settings.
 */

import { createHash, timingSafeEqual } from "node:crypto";

/** The credential that the instances of a fleet show each other. */
export interface InstanceTokens {
  /** What this instance shows. */
  readonly own: string;
  /** Whether another instance may have shown this. */
  isOne(presented: string): boolean;
}

/**
 * Derives the tokens from the service secrets, so that they need no setting and change with them.
 * `digestOf` is the HMAC of a text under the secret of a version. While the secret changes,
 * instances show tokens of different versions: each that this instance knows is taken.
 */
export function createInstanceTokens(secrets: {
  readonly newestVersion: string;
  readonly versions: readonly string[];
  digest(version: string, text: string): Buffer | undefined;
}): InstanceTokens {
  const tokenOf = (version: string) => {
    const digest = secrets.digest(version, purpose);
    if (!digest) throw new Error("no secret has this version");
    return digest.toString("base64url");
  };
  const checks = secrets.versions.map((version) => createServiceTokenCheck(tokenOf(version)));
  return {
    own: tokenOf(secrets.newestVersion),
    isOne: (presented) => checks.some((isRight) => isRight(presented)),
  };
}

/** No key begins so: what one of both proves is no proof for the other. */
const purpose = "keyrun-instance-token";

/**
 * Makes the check of the internal services' token. Both sides are hashed first, so that the time
 * reveals no length.
 */
export function createServiceTokenCheck(serviceToken: string): (presented: string) => boolean {
  const expected = hash(serviceToken);
  return (presented) => timingSafeEqual(hash(presented), expected);
}

function hash(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
