/**
 * The text with the table between `<!-- NAME:start -->` and `<!-- NAME:end -->`. Undefined if the
 * text does not have these two marks.
 */
export function withTable(text: string, name: string, table: string): string | undefined {
  const place = new RegExp(`(<!-- ${name}:start -->\\n)[\\s\\S]*?(<!-- ${name}:end -->)`);
  if (!place.test(text)) return undefined;
  return text.replace(place, (_, start: string, end: string) => `${start}${table}${end}`);
}
