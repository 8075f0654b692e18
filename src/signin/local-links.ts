import type { Clock } from "../clock.ts";
import { bounds } from "../config.ts";
import type { RandomBytes } from "../keys/key-value.ts";
import { hashToken, newToken } from "./opaque-token.ts";
import type { ScreenAddress } from "./screen-address.ts";
import type { SignedInUser } from "./sessions.ts";

/** Whom a one-time link signs in: whoever may run commands where Keyrun runs. */
export const localOwner: SignedInUser = {
  issuer: "keyrun:local",
  subject: "owner",
  email: "owner@localhost",
};

/** One-time links, for where the machine itself is the proof of who somebody is. */
export interface LocalLinks {
  /** A new link. Its code is in the fragment, which browsers send to nobody; it must never be logged. */
  create(): { readonly url: string; readonly expireTimeMs: number };
  /** True once for each code that was made within its time, and then never again. */
  redeem(code: string): boolean;
}

/**
 * At most `localLinksMax` links wait to be used; one more makes the oldest useless. Of the codes only hashes are held,
 * and those in memory alone: a restart ends them all.
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
      const code = newToken(randomBytes);
      const hash = hashToken(code) ?? "";
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
