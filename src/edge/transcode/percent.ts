/**
 * Decodes every percent escape; undefined where one is malformed, is not UTF-8, or a character is no URI's.
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

/** As `decodeAll`, but leaves `%2F` and `%2f` as they are, so that a captured slash is always a real one. */
export function decodeExceptSlash(text: string): string | undefined {
  if (isPlain(text)) return text;
  if (!isUriText(text)) return undefined;
  try {
    return decodeURIComponent(text.replaceAll("%2F", "%252F").replaceAll("%2f", "%252f"));
  } catch {
    return undefined;
  }
}

/** Printable ASCII without a percent sign: the common case, which is its own decoding. */
function isPlain(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code <= 0x20 || code >= 0x7f || code === 0x25) return false;
  }
  return true;
}

/** Raw bytes above ASCII reach us in an encoding that nobody declared, so they must be percent-encoded. */
function isUriText(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code <= 0x20 || code >= 0x7f) return false;
  }
  return true;
}
