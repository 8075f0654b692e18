/**
 * Returns the text from this place on, up to so many bytes of UTF-8, cut between code points. The
 * text is well-formed. `bytesMax` is at least 4, so a code point always fits.
 */
export function cutPiece(text: string, from: number, bytesMax: number): string {
  // A code unit takes at most three bytes.
  if (3 * (text.length - from) <= bytesMax) return from === 0 ? text : text.slice(from);
  const rest = text.slice(from, from + bytesMax);
  const { read } = encoder.encodeInto(rest, new Uint8Array(bytesMax));
  return rest.slice(0, read);
}

const encoder = new TextEncoder();
