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
export function readCookie(header: string | undefined, name: string): CookieFound {
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
export function writeCookie(
  { name, value }: { readonly name: string; readonly value: string },
  { maxAgeS, secure }: { readonly maxAgeS: number; readonly secure: boolean },
): string {
  const cookie = `${name}=${value}; Path=/; Max-Age=${maxAgeS}; HttpOnly; SameSite=Lax`;
  return secure ? `${cookie}; Secure` : cookie;
}
