import { fail } from "../error.ts";

/** The form of an id that its creator chooses. */
export const resourceIdForm = /^[a-z][a-z0-9-]{0,62}$/;

/** Whether the text could be the id of a team or an app. */
export function isResourceId(value: string): boolean {
  return resourceIdForm.test(value);
}

/**
 * A team's or an app's id, chosen by its creator: `[a-z][a-z0-9-]{0,62}` (AIP-122's user-settable ids).
 * Refuses with INVALID_ARGUMENT naming `param`.
 */
export function readResourceId(value: string, param: string): string {
  if (isResourceId(value)) return value;
  throw fail("INVALID_ARGUMENT", {
    param,
    problem: `${param} must be 1 to 63 characters: a lower-case letter, then lower-case letters, digits or hyphens.`,
  });
}
