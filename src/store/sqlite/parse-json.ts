/**
 * Undefined where the text is not JSON. The parser's own error would quote the text, which may hold
 * a credential.
 */
export function parseJson(text: unknown): unknown {
  try {
    return JSON.parse(String(text));
  } catch {
    return undefined;
  }
}
