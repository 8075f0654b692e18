import { styleText } from "node:util";

/** Marks for a terminal with colours; without them, the functions return the text as it is. */
export interface Style {
  strong(text: string): string;
  faint(text: string): string;
  good(text: string): string;
  bad(text: string): string;
}

/** What of a stream says whether it is a terminal. */
export interface OutputStream {
  readonly isTTY?: boolean;
  /** The width of the terminal. */
  readonly columns?: number;
}

export function createStyle(coloured: boolean): Style {
  const mark = (format: Parameters<typeof styleText>[0]) => (text: string) =>
    coloured ? styleText(format, text, { validateStream: false }) : text;
  return { strong: mark("bold"), faint: mark("dim"), good: mark("green"), bad: mark("red") };
}

/**
 * Whether to write colours: where the stream is a terminal that has them. NO_COLOR with any value
 * turns them off (no-color.org), and FORCE_COLOR turns them on for pipes, too.
 */
export function wantsColour(
  env: Readonly<Record<string, string | undefined>>,
  stream: OutputStream,
): boolean {
  if (env.NO_COLOR) return false;
  if (env.FORCE_COLOR !== undefined) return !/^(0|false)$/.test(env.FORCE_COLOR);
  return stream.isTTY === true && env.TERM !== "dumb";
}
