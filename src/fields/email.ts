import { fail } from "../error.ts";

const emailCharactersMax = 254; // RFC 5321, section 4.5.3.1.3, less the angle brackets.
const emailForm = /^[^\s@\p{Cc}]{1,64}@[^\s@\p{Cc}]+$/u;

/** An e-mail address, trimmed and in lower case, as memberships compare it. Refuses with INVALID_ARGUMENT. */
export function readEmail(value: string, param: string): string {
  const email = value.trim().toLowerCase();
  if (email.length <= emailCharactersMax && emailForm.test(email)) return email;
  throw fail("INVALID_ARGUMENT", {
    param,
    problem: `${param} must be an e-mail address like ada@example.com, at most ${emailCharactersMax} characters.`,
  });
}
