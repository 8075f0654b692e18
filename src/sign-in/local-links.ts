/** One-time links, with which the owner of the machine signs in without an issuer. */

import type { Clock } from "../base/clock.ts";
import type { RandomBytes } from "../base/ids.ts";
import { bounds } from "../bounds.ts";
import type { ScreenAddress } from "./screen-address.ts";
import { hashToken, newToken, type SignedInUser } from "./sessions.ts";

/** The user that a one-time link signs in: a person who may run commands on Keyrun's machine. */
export const localOwner: SignedInUser = {
  issuer: "keyrun:local",
  subject: "owner",
  email: "owner@localhost",
};

/** One-time links, for a Keyrun where access to the machine is the proof of identity. */
export interface LocalLinks {
  /**
   * Creates a link. Its code is in the fragment, which browsers never send. It must never be
   * logged.
   */
  create(): { readonly url: string; readonly expireTimeMs: number };
  /** Returns true once for each code that has not expired, and false ever after. */
  redeem(code: string): boolean;
}

/**
 * At most `localLinksMax` links can be unused; one more makes the oldest invalid. Only hashes of
 * the codes are kept, and only in memory, so a restart makes all links invalid.
 */
export function createLocalLinks(parts: {
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly address: () => ScreenAddress;
}): LocalLinks {
  const { clock, randomBytes, address } = parts;
  const deadlines = new Map<string, number>();

  return {
    create() {
      const { token: code, hash } = newToken(randomBytes);
      deadlines.set(hash, clock.monotonicMs() + bounds.localLinkMs);
      for (const oldest of deadlines.keys()) {
        if (deadlines.size <= bounds.localLinksMax) break;
        deadlines.delete(oldest);
      }
      return {
        url: `${address().origin}/sign-in/link#code=${code}`,
        expireTimeMs: clock.unixMs() + bounds.localLinkMs,
      };
    },
    redeem(code) {
      const hash = hashToken(code) ?? "";
      const deadlineMs = deadlines.get(hash);
      deadlines.delete(hash);
      return deadlineMs !== undefined && clock.monotonicMs() < deadlineMs;
    },
  };
}
