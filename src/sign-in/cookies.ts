/**
 * The cookies of the screen: how one is read, that of a session, and the signed ones of the
 * sign-ins that are under way.
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

/** The names and values of the `Cookie` header (RFC 6265, section 5.4). */
function cookiePairs(header: string | undefined): readonly (readonly [name: string, value: string])[] {
  return (header ?? "").split(";").flatMap((pair) => {
    const equals = pair.indexOf("=");
    return equals < 0 ? [] : [[pair.slice(0, equals).trim(), pair.slice(equals + 1).trim()] as const];
  });
}

function readCookie(header: string | undefined, wanted: string): CookieFound {
  const values = cookiePairs(header).flatMap(([name, value]) => (name === wanted ? [value] : []));
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

/**
 * The cookies of the sign-ins that a browser has begun, one for each: several tabs may begin before
 * the first returns. The name of a cookie ends with its `state`, so each return finds its own.
 */
export interface OidcStateCookies {
  /**
   * Returns the `Set-Cookie` values that keep one more sign-in. The oldest ones in `header` are
   * removed where all together would be longer than `oidcCookieBytesMax`.
   */
  write(state: OidcState, header: string | undefined): string[];
  /**
   * Returns undefined if the cookie is missing, expired, sent twice, or not signed with our keys.
   */
  read(header: string | undefined, state: string): OidcState | undefined;
  /** Returns the `Set-Cookie` values that remove this sign-in, and no other. */
  clear(state: string): string[];
}

const form = z.strictObject({
  nonce: z.string(),
  codeVerifier: z.string(),
  returnTo: z.string(),
  expireTimeMs: z.number(),
});

/** As openid-client makes it. A caller may send any text as a state, which is part of a name. */
const stateForm = /^[A-Za-z0-9_-]{43}$/;

/**
 * Each cookie is signed with the first of `keys`, so that nobody else can make one, and expires
 * after `oidcSignInMs`. It is read with any of them: another instance may have written it while the
 * secret that the keys are made from changes.
 */
export function createOidcStateCookies(parts: {
  readonly clock: Clock;
  readonly keys: readonly [Uint8Array, ...Uint8Array[]];
  readonly address: ScreenAddress;
}): OidcStateCookies {
  const { clock, keys } = parts;
  const { secure, port } = parts.address;
  const prefix = secure ? "__Host-keyrun-sign-in-" : `keyrun-sign-in-${port}-`;
  const sign = (key: Uint8Array, state: string, text: string) =>
    createHmac("sha256", key).update(`keyrun-sign-in:${state}:${text}`).digest();
  const isSigned = (state: string, text: string, presented: Buffer) =>
    keys.some((key) => {
      const expected = sign(key, state, text);
      return presented.length === expected.length && timingSafeEqual(presented, expected);
    });

  /** The content of a cookie that is ours and has not expired. */
  function open(header: string | undefined, state: string) {
    const cookie = readCookie(header, prefix + state);
    if (cookie.kind !== "found") return undefined;
    const [text = "", signature = ""] = cookie.value.split(".");
    if (!isSigned(state, text, Buffer.from(signature, "base64url"))) return undefined;
    const content = form.parse(JSON.parse(Buffer.from(text, "base64url").toString()));
    return clock.unixMs() < content.expireTimeMs ? content : undefined;
  }

  /** The sign-ins that the browser still has, newest first. Those that are over come last. */
  function known(header: string | undefined) {
    return cookiePairs(header)
      .filter(([name]) => name.startsWith(prefix) && stateForm.test(name.slice(prefix.length)))
      .map(([name, value]) => {
        const state = name.slice(prefix.length);
        const endMs = open(header, state)?.expireTimeMs ?? 0;
        return { state, endMs, bytes: sentBytes(name, value) };
      })
      .toSorted((one, other) => other.endMs - one.endMs);
  }

  const clear = (state: string) => writeCookie({ name: prefix + state, value: "" }, { secure, maxAgeS: 0 });

  return {
    write({ state, ...rest }, header) {
      const content = { ...rest, expireTimeMs: clock.unixMs() + bounds.oidcSignInMs };
      const text = Buffer.from(JSON.stringify(content)).toString("base64url");
      const value = `${text}.${sign(keys[0], state, text).toString("base64url")}`;
      const name = prefix + state;
      let bytes = sentBytes(name, value);
      const removed = known(header).filter((older) => {
        bytes += older.bytes;
        return older.endMs === 0 || bytes > bounds.oidcCookieBytesMax;
      });
      return [
        ...removed.map((older) => clear(older.state)),
        writeCookie({ name, value }, { secure, maxAgeS: bounds.oidcSignInMs / 1_000 }),
      ];
    },
    read(header, state) {
      const content = stateForm.test(state) ? open(header, state) : undefined;
      if (!content) return undefined;
      const { expireTimeMs: _, ...rest } = content;
      return { state, ...rest };
    },
    clear: (state) => (stateForm.test(state) ? [clear(state)] : []),
  };
}

/** How long a cookie is in the `Cookie` header. */
function sentBytes(name: string, value: string): number {
  return `${name}=${value}; `.length;
}
