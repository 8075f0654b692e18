/** What a request's `Cookie` header holds under one name. */
export type CookieFound =
  | { readonly kind: "found"; readonly value: string }
  | { readonly kind: "missing" }
  /** Two of one name: one of them was planted, perhaps by a page of a neighbouring host, and which is anybody's guess. */
  | { readonly kind: "ambiguous" };

/** Reads the one cookie of this name (RFC 6265, section 5.4). */
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
 * A `Set-Cookie` for the whole host, out of scripts' reach. SameSite=Lax and not Strict: the browser comes back from
 * the issuer by a link of another site. An age of 0 removes it.
 */
export function writeCookie(
  { name, value }: { readonly name: string; readonly value: string },
  { maxAgeS, secure }: { readonly maxAgeS: number; readonly secure: boolean },
): string {
  const cookie = `${name}=${value}; Path=/; Max-Age=${maxAgeS}; HttpOnly; SameSite=Lax`;
  return secure ? `${cookie}; Secure` : cookie;
}
