import { fail } from "../refusal/refusal.ts";

/** The form of a team's or an app's id, which its creator chooses (AIP-122). */
export const resourceIdForm = /^[a-z][a-z0-9-]{0,62}$/;

/** Whether the text could be the id of a team or an app. */
export function isResourceId(value: string): boolean {
  return resourceIdForm.test(value);
}

/** The id, if it has the form. Refuses with INVALID_ARGUMENT naming `param`. */
export function readResourceId(value: string, param: string): string {
  if (isResourceId(value)) return value;
  throw fail("INVALID_ARGUMENT", {
    param,
    problem: `${param} must be 1 to 63 characters: a lower-case letter, then lower-case letters, digits or hyphens.`,
  });
}
