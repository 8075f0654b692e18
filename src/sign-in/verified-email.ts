/** The e-mail of a person, as the issuer vouches for it. */

import { normalEmail } from "../base/fields.ts";

/** What one answer of the issuer says of a person: an ID token, or the userinfo endpoint's. */
export type Claims = Readonly<Record<string, unknown>>;

/**
 * Why an e-mail does not count. `email_verified_unsaid`: no answer says whether it is verified.
 * `email_differs`: the answers name several.
 */
export type EmailProblem =
  | "email_missing"
  | "email_malformed"
  | "email_differs"
  | "email_not_verified"
  | "email_verified_unsaid";

/**
 * Returns the e-mail, in lower case, if the issuer says that it is verified. All answers must name
 * the same one, and a `false` in any of them wins. A `true` counts only beside the e-mail that it
 * is about. With `assumesVerified`, an e-mail of which nothing is said counts, too.
 */
export function verifiedEmail(
  answers: readonly Claims[],
  { assumesVerified }: { readonly assumesVerified: boolean },
): { readonly email: string } | { readonly problem: EmailProblem } {
  const named = answers.filter((answer) => answer.email !== undefined && answer.email !== null);
  const [email, ...others] = named.map((answer) => readEmail(answer.email));
  if (named.length === 0) return { problem: "email_missing" };
  if (email === undefined || others.includes(undefined)) return { problem: "email_malformed" };
  if (others.some((other) => other !== email)) return { problem: "email_differs" };
  if (answers.some((answer) => isVerified(answer) === false)) return { problem: "email_not_verified" };
  if (assumesVerified || named.some(isVerified)) return { email };
  return { problem: "email_verified_unsaid" };
}

function readEmail(email: unknown): string | undefined {
  return typeof email === "string" ? normalEmail(email) : undefined;
}

/**
 * Undefined if nothing is said. Amazon Cognito and Apple say it by a text. Any other value is no
 * `true`, and is not taken for silence either.
 */
function isVerified({ email_verified: said }: Claims): boolean | undefined {
  return said === undefined ? undefined : said === true || said === "true";
}
