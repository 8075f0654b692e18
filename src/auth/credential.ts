/** What a request shows as proof: which kinds there are, and how `Authorization` is read. */

/**
 * What a method takes as proof: an API key; the token of internal services; a session; a session
 * whose user has preview access, for the user's own teams only; the token that the instances of a
 * fleet share; or nothing.
 */
export type CredentialKind = "api_key" | "service" | "session" | "preview_session" | "instance" | "none";

/** What the `Authorization` headers of a request hold. */
export type BearerCredential =
  | { readonly kind: "bearer"; readonly token: string }
  | { readonly kind: "missing" }
  | { readonly kind: "malformed" };

const bearerForm = /^bearer +\S+$/i;
const authorizationCharactersMax = 8 * 1024;

/**
 * Reads `Authorization: Bearer <token>` (RFC 6750, section 2.1; the scheme ignores case, RFC 9110,
 * section 11.1). `authorizations` holds every value that was sent. Two values are malformed, since
 * nobody can say which of them counts.
 */
export function readBearer(authorizations: readonly string[]): BearerCredential {
  if (authorizations.length > 1) return { kind: "malformed" };
  const value = authorizations[0]?.trim() ?? "";
  if (value === "") return { kind: "missing" };
  if (value.length > authorizationCharactersMax || !bearerForm.test(value)) return { kind: "malformed" };
  return { kind: "bearer", token: value.slice(value.lastIndexOf(" ") + 1) };
}
