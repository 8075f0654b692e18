import { createHash } from "node:crypto";
import type { Config } from "../settings/config.ts";

/**
 * What an instance says of itself when it registers, for the others and for those that want to
 * join. Nothing in it is secret. The protocol stores it, and reads nothing but the address.
 */
export interface InstanceFacts {
  /** The version of the protocol that the instances speak with each other: `fleetProtocol`. */
  readonly protocol: number;
  /** The version of Keyrun, for people; "" of one that does not say it. */
  readonly version: string;
  /** The schema of the store that the instance knows. */
  readonly schema: number;
  /** The versions of the secrets whose keys the instance can read, newest first. */
  readonly secretVersions: readonly string[];
  /** Equal for equal service tokens, and of no use to find a strong one: `serviceTokenMark`. */
  readonly serviceTokenMark: string;
  readonly keyPrefix: string;
  /** It serves the store alone: nobody may serve beside it. */
  readonly alone: boolean;
  /** Where the other instances reach its internal listener; null: it is not nudged. */
  readonly address: string | null;
}

/** The facts of an instance with these settings. */
export function factsFrom(
  { keyPrefix, advertiseAddress }: Pick<Config, "keyPrefix" | "advertiseAddress">,
  {
    serviceToken,
    ...known
  }: Pick<InstanceFacts, "version" | "schema" | "secretVersions"> & { readonly serviceToken: string },
): InstanceFacts {
  return {
    ...{ protocol: fleetProtocol, alone: false, keyPrefix, ...known },
    serviceTokenMark: serviceTokenMark(serviceToken),
    address: advertiseAddress ?? null,
  };
}

/** Raised where instances of two versions could not keep a promise to each other. */
export const fleetProtocol = 1;

/**
 * A mark by which two instances see that they have the same service token. It is made of the token
 * alone, so it stays while the service's secrets change.
 */
export function serviceTokenMark(token: string): string {
  return createHash("sha256").update("keyrun-service-token:").update(token).digest("hex").slice(0, 16);
}
