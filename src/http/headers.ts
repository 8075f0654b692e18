/** Returns alternating names and values as `Headers`, without pseudo-headers such as `:path`. */
export function headersOf(flat: readonly string[]): Headers {
  const headers = new Headers();
  for (const [name, value] of pairsOf(flat)) {
    if (!name.startsWith(":")) headers.append(name, value);
  }
  return headers;
}

/** Returns alternating names and values as pairs. */
export function* pairsOf(flat: readonly string[]): Generator<[name: string, value: string]> {
  for (let at = 0; at + 1 < flat.length; at += 2) yield [flat[at] ?? "", flat[at + 1] ?? ""];
}

/** Returns the headers as alternating names and values. */
export function flatHeaders(headers: Headers | undefined): string[] {
  return headers === undefined ? [] : [...headers].flat();
}
