/**
 * Decodes every percent escape (RFC 3986). Undefined if an escape is malformed or not UTF-8, or if
 * a character is not allowed in a URI.
 */
export function decodeAll(text: string): string | undefined {
  if (isPlain(text)) return text;
  if (!isUriText(text)) return undefined;
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/**
 * Like `decodeAll`, but keeps `%2F` and `%2f`, so that a slash in the result was a slash in the
 * URI.
 */
export function decodeExceptSlash(text: string): string | undefined {
  if (isPlain(text)) return text;
  if (!isUriText(text)) return undefined;
  try {
    return decodeURIComponent(text.replaceAll("%2F", "%252F").replaceAll("%2f", "%252f"));
  } catch {
    return undefined;
  }
}

/** Printable ASCII without a percent sign needs no decoding. This is the common case. */
function isPlain(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code <= 0x20 || code >= 0x7f || code === 0x25) return false;
  }
  return true;
}

/** The encoding of raw bytes above ASCII is unknown, so they must be percent-encoded. */
function isUriText(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code <= 0x20 || code >= 0x7f) return false;
  }
  return true;
}
