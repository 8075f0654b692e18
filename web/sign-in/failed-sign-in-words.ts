/** What the page says about a failed sign-in, and whether trying again may help. */
export interface FailedSignInWords {
  readonly text: string;
  readonly retry: boolean;
}

/**
 * The words for the `error` with which Keyrun sends a browser back to `/sign-in`. Anybody can write
 * an address, so an unknown value gets general words and is never shown itself.
 */
export function failedSignInWords(error: string): FailedSignInWords {
  return known.get(error) ?? unexplained;
}

const unexplained: FailedSignInWords = { text: "The sign-in did not succeed.", retry: true };

const known = new Map<string, FailedSignInWords>([
  [
    "access_denied",
    { text: "You cancelled the sign-in, or your organisation does not allow it.", retry: true },
  ],
  ["expired", { text: "The sign-in took too long, or was begun in another browser.", retry: true }],
  [
    "email_not_verified",
    {
      text: "Your organisation does not say that your e-mail address is verified. Verify it there, then sign in again. If it is verified already, tell whoever runs Keyrun here.",
      retry: true,
    },
  ],
  [
    "email_taken",
    {
      text: "Your e-mail address belongs to another account here. Ask your operator to release it.",
      retry: false,
    },
  ],
  ["provider_unavailable", { text: "Your organisation's sign-in can't be reached right now.", retry: true }],
]);
