/**
 * Returns a text as a refusal repeats it: well-formed, and at most `bytesMax` bytes long in JSON,
 * without the quotes. A longer text is cut, and ends with "…". Bytes in JSON are counted because
 * they are the most: one byte of UTF-8 can take six of them.
 */
export function cutText(text: string, bytesMax: number): string {
  // Nearly every text is Keyrun's own, and plain.
  if (text.length <= bytesMax && plain.test(text)) return text;
  let whole = "";
  let cut = "";
  let bytes = 0;
  for (const character of text) {
    const shown = character.toWellFormed();
    bytes += Buffer.byteLength(JSON.stringify(shown)) - 2;
    if (bytes > bytesMax) return `${cut}${ellipsis}`;
    whole += shown;
    if (bytes <= bytesMax - ellipsisBytes) cut = whole;
  }
  return whole;
}

/** ASCII that JSON does not escape. */
const plain = /^[ !#-[\]-~]*$/;
const ellipsis = "…";
const ellipsisBytes = Buffer.byteLength(ellipsis);
