import { fail } from "../refusal/refusal.ts";

const emailCharactersMax = 254; // RFC 5321, section 4.5.3.1.3, less the angle brackets.
const emailForm = /^[^\s@\p{Cc}]{1,64}@[^\s@\p{Cc}]+$/u;

/** The e-mail address, trimmed and in lower case. Refuses with INVALID_ARGUMENT naming `param`. */
export function readEmail(value: string, param: string): string {
  const email = normalEmail(value.trim());
  if (email !== undefined) return email;
  throw fail("INVALID_ARGUMENT", {
    param,
    problem: `${param} must be an e-mail address like ada@example.com, at most ${emailCharactersMax} characters.`,
  });
}

/** The address in lower case; undefined if the text is not an e-mail address. */
export function normalEmail(value: string): string | undefined {
  return value.length <= emailCharactersMax && emailForm.test(value) ? value.toLowerCase() : undefined;
}
