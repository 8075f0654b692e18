import { bounds } from "../bounds.ts";

// The whole value of a key, with anything before and after it. The server allows any such prefix.
const wholeKey = /[a-z][a-z0-9]{0,11}_([0-9a-hjkmnp-tv-z]{24})\./;
// A search has no use for them, and the server refuses them.
const refused = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069\p{Cs}]/gu;

/**
 * What a person may search for, from what they typed or pasted. Of the whole value of a key only
 * its id stays, which is no secret.
 */
export function searchText(text: string): string {
  const keyId = wholeKey.exec(text)?.[1];
  if (keyId !== undefined) return keyId;
  return [...text.replace(refused, "")].slice(0, bounds.keyQueryCodePointsMax).join("");
}
