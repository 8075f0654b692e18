/**
 * The cookies of the screen: how one is read, that of a session, and the sealed one of a sign-in
 * that is under way.
 */

import { createHmac, timingSafeEqual } from "node:crypto";
import { z } from "zod";
import type { Clock } from "../base/clock.ts";
import { bounds } from "../bounds.ts";
import type { ScreenAddress } from "./screen-address.ts";

/** What the `Cookie` header holds under one name. */
export type CookieFound =
  | { readonly kind: "found"; readonly value: string }
  | { readonly kind: "missing" }
  /**
   * Two cookies have the same name. One of them may have been planted by a page of a neighbouring
   * host, and they can't be told apart.
   */
  | { readonly kind: "ambiguous" };

/** Reads the cookie of this name (RFC 6265, section 5.4). */
function readCookie(header: string | undefined, name: string): CookieFound {
  const values = (header ?? "").split(";").flatMap((pair) => {
    const equals = pair.indexOf("=");
    return equals >= 0 && pair.slice(0, equals).trim() === name ? [pair.slice(equals + 1).trim()] : [];
  });
  const [value, ...others] = values;
  if (value === undefined) return { kind: "missing" };
  return others.length > 0 ? { kind: "ambiguous" } : { kind: "found", value };
}

/**
 * Returns a `Set-Cookie` value for the whole host that scripts can't read. SameSite is Lax and not
 * Strict, because the browser returns from the issuer by a link of another site. A maximum age of 0
 * removes the cookie.
 */
function writeCookie(
  { name, value }: { readonly name: string; readonly value: string },
  { maxAgeS, secure }: { readonly maxAgeS: number; readonly secure: boolean },
): string {
  const cookie = `${name}=${value}; Path=/; Max-Age=${maxAgeS}; HttpOnly; SameSite=Lax`;
  return secure ? `${cookie}; Secure` : cookie;
}

/** The cookie that holds a session's token. */
interface SessionCookie {
  readonly name: string;
  /** Reads the cookie from the `Cookie` header. */
  read(header: string | undefined): CookieFound;
  /**
   * Returns the `Set-Cookie` value that stores the token, for the longest time that a session can
   * last.
   */
  write(token: string): string;
  /** Returns the `Set-Cookie` value that removes the token. */
  clear(): string;
}

/**
 * The name is `__Host-keyrun` over HTTPS, which neither a neighbouring host nor plain HTTP can set
 * (RFC 6265bis, section 4.1.3.2). It is `keyrun-<port>` over HTTP on loopback, because two servers
 * on one machine share their cookies.
 */
export function createSessionCookie({ secure, port }: ScreenAddress): SessionCookie {
  const name = secure ? "__Host-keyrun" : `keyrun-${port}`;
  return {
    name,
    read: (header) => readCookie(header, name),
    write: (token) => writeCookie({ name, value: token }, { secure, maxAgeS: bounds.sessionMsMax / 1_000 }),
    clear: () => writeCookie({ name, value: "" }, { secure, maxAgeS: 0 }),
  };
}

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
