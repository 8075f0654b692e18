/** Measures text in columns of a terminal, where CJK and emoji take two. */
export interface Ruler {
  widthOf(text: string): number;
  /** The text, or what fits of it before a "…". */
  cut(text: string, columns: number): string;
}

/** A ruler for these texts. Loads the tables of Unicode only if one of the texts needs them. */
export async function rulerFor(texts: readonly string[]): Promise<Ruler> {
  const widthOf = texts.every((text) => plain.test(text)) ? lengthOf : await unicodeWidth();
  return {
    widthOf,
    cut(text, columns) {
      if (widthOf(text) <= columns) return text;
      let kept = "";
      let width = 0;
      for (const { segment } of new Intl.Segmenter().segment(text)) {
        width += widthOf(segment);
        if (width > columns - 1) break;
        kept += segment;
      }
      return `${kept}…`;
    },
  };
}

/** ASCII, and what redacted values hold. Each character takes one column. */
const plain = /^[ -~…]*$/;

function lengthOf(text: string): number {
  return text.length;
}

async function unicodeWidth(): Promise<(text: string) => number> {
  return (await import("string-width")).default;
}
