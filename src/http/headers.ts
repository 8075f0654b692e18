/** Returns alternating names and values as `Headers`, without pseudo-headers such as `:path`. */
export function headersOf(flat: readonly string[]): Headers {
  const headers = new Headers();
  for (let at = 0; at + 1 < flat.length; at += 2) {
    const name = flat[at] ?? "";
    if (!name.startsWith(":")) headers.append(name, flat[at + 1] ?? "");
  }
  return headers;
}

/** Returns the headers as alternating names and values. */
export function flatHeaders(headers: Headers | undefined): string[] {
  return headers === undefined ? [] : [...headers].flat();
}
