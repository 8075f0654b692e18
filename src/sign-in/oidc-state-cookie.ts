import { createHmac, timingSafeEqual } from "node:crypto";
import { z } from "zod";
import type { Clock } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import { readCookie, writeCookie } from "./cookies.ts";
import type { ScreenAddress } from "./screen-address.ts";

/**
 * What the browser keeps while it is at the issuer, so that only the browser that began a sign-in
 * can complete it.
 */
export interface OidcState {
  readonly state: string;
  readonly nonce: string;
  /** PKCE's secret (RFC 7636). It is useless without the code, which the same browser brings. */
  readonly codeVerifier: string;
  readonly returnTo: string;
}

/** The cookie of a sign-in in progress. A second sign-in in the same browser replaces it. */
export interface OidcStateCookie {
  write(state: OidcState): string;
  /**
   * Returns undefined if the cookie is missing, expired, sent twice, or not signed with our keys.
   */
  read(header: string | undefined): OidcState | undefined;
  clear(): string;
}

const form = z.strictObject({
  state: z.string(),
  nonce: z.string(),
  codeVerifier: z.string(),
  returnTo: z.string(),
  expireTimeMs: z.number(),
});

/**
 * The cookie is signed with the first of `keys`, so that nobody else can make one, and expires
 * after `oidcSignInMs`. It is read with any of them: another instance may have written it while the
 * secret that the keys are made from changes.
 */
export function createOidcStateCookie(parts: {
  readonly clock: Clock;
  readonly keys: readonly [Uint8Array, ...Uint8Array[]];
  readonly address: ScreenAddress;
}): OidcStateCookie {
  const { clock, keys } = parts;
  const { secure, port } = parts.address;
  const name = secure ? "__Host-keyrun-sign-in" : `keyrun-sign-in-${port}`;
  const sign = (key: Uint8Array, text: string) =>
    createHmac("sha256", key).update(`keyrun-sign-in:${text}`).digest();
  const isSigned = (text: string, presented: Buffer) =>
    keys.some((key) => {
      const expected = sign(key, text);
      return presented.length === expected.length && timingSafeEqual(presented, expected);
    });

  return {
    write(state) {
      const content = { ...state, expireTimeMs: clock.unixMs() + bounds.oidcSignInMs };
      const text = Buffer.from(JSON.stringify(content)).toString("base64url");
      const value = `${text}.${sign(keys[0], text).toString("base64url")}`;
      return writeCookie({ name, value }, { secure, maxAgeS: bounds.oidcSignInMs / 1_000 });
    },
    read(header) {
      const cookie = readCookie(header, name);
      if (cookie.kind !== "found") return undefined;
      const [text = "", signature = ""] = cookie.value.split(".");
      if (!isSigned(text, Buffer.from(signature, "base64url"))) return undefined;
      const { expireTimeMs, ...state } = form.parse(JSON.parse(Buffer.from(text, "base64url").toString()));
      return clock.unixMs() < expireTimeMs ? state : undefined;
    },
    clear: () => writeCookie({ name, value: "" }, { secure, maxAgeS: 0 }),
  };
}
