/** What the `Authorization` headers of a request hold. */
export type BearerCredential =
  | { readonly kind: "bearer"; readonly token: string }
  | { readonly kind: "missing" }
  | { readonly kind: "malformed" };

const bearerForm = /^bearer +\S+$/i;
const authorizationCharactersMax = 8 * 1024;

/**
 * Reads `Authorization: Bearer <token>` (RFC 6750, section 2.1; the scheme without case, RFC 9110, section 11.1).
 * Takes every value that was sent: two are malformed, since which of them counts is anybody's guess.
 */
export function readBearer(authorizations: readonly string[]): BearerCredential {
  if (authorizations.length > 1) return { kind: "malformed" };
  const value = authorizations[0]?.trim() ?? "";
  if (value === "") return { kind: "missing" };
  if (value.length > authorizationCharactersMax || !bearerForm.test(value)) return { kind: "malformed" };
  return { kind: "bearer", token: value.slice(value.lastIndexOf(" ") + 1) };
}
