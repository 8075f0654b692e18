/** Tables for people: aligned, and narrowed until a line fits the terminal. */

import { wrongUse } from "./failures.ts";
import { printable, type Terminal } from "./terminal.ts";

export interface Column {
  readonly head: string;
  /** May be cut down to this width in a narrow terminal. Absent: never cut. */
  readonly least?: number;
  /** Left out if the terminal is too narrow for all columns, that of the least number first. */
  readonly spare?: number;
}

/** A cell, or a cell that has a shorter form for narrow terminals. */
export type Cell = string | { readonly full: string; readonly short: string };

export interface Row {
  readonly cells: readonly Cell[];
  /** Shown less prominently where the terminal has colours. */
  readonly faint?: boolean;
}

/**
 * Prints aligned columns, two spaces apart. In a terminal that is too narrow, it shortens cells,
 * leaves columns out and cuts cells, in this order, until a line fits, and says which columns are
 * left out. A pipe or a file gets everything.
 */
export async function printTable(
  terminal: Terminal,
  all: readonly Column[],
  rows: readonly Row[],
): Promise<void> {
  const { style, tableOptions } = terminal;
  const { columns: widthMax = Number.POSITIVE_INFINITY } = tableOptions.wide ? {} : terminal;
  const shown = chosenColumns(all, tableOptions.columns);
  const columns = shown.map(({ column }) => column);
  const texts = (form: "full" | "short") => [
    columns.map(({ head }) => head),
    ...rows.map(({ cells }) => shown.map(({ place }) => printable(textOf(cells[place] ?? "", form)))),
  ];
  const full = texts("full");
  const ruler = await rulerFor(full.flat());
  const measure = (lines: readonly (readonly string[])[]) =>
    columns.map((_, column) => Math.max(...lines.map((cells) => ruler.widthOf(cells[column] ?? ""))));
  const fits = lineWidth(measure(full)) <= widthMax;
  const lines = fits ? full : texts("short");
  const widths = fitWidths(columns, measure(lines), widthMax);
  for (const [index, cells] of lines.entries()) {
    const line = cells
      .flatMap((cell, column) => {
        const width = widths[column] ?? 0;
        if (width === 0) return [];
        const text = ruler.cut(cell, width);
        return [text + " ".repeat(width - ruler.widthOf(text))];
      })
      .join(gap)
      .trimEnd();
    const mark = index === 0 ? style.strong : rows[index - 1]?.faint ? style.faint : undefined;
    terminal.print(mark === undefined ? line : mark(line));
  }
  const hidden = columns.filter(({ head }, column) => widths[column] === 0 && head !== "");
  if (hidden.length > 0) terminal.note(hiddenWords(hidden.map(({ head }) => head)));
}

interface ShownColumn {
  readonly column: Column;
  /** Of its cells in each row. */
  readonly place: number;
}

/** All, or those whose heads are named: of them none is left out. Refuses what is no head. */
function chosenColumns(all: readonly Column[], chosen: string | undefined): ShownColumn[] {
  const named = all.map((column, place) => ({ column, place, name: nameOf(column.head) }));
  if (chosen === undefined) return named;
  return chosen.split(",").map((text) => {
    const found = named.find(({ name }) => name !== "" && name === nameOf(text));
    if (found === undefined) {
      const names = named.flatMap(({ name }) => name || []);
      throw wrongUse(`--columns takes some of ${names.join(",")}.`);
    }
    const { spare: _, ...column } = found.column;
    return { column, place: found.place };
  });
}

function nameOf(head: string): string {
  return head.trim().toLowerCase().replaceAll(" ", "-");
}

function hiddenWords(heads: readonly string[]): string {
  const number = heads.length === 1 ? "A column is" : `${heads.length} columns are`;
  return `${number} hidden: ${heads.join(", ")}. See all with --wide, or choose some with --columns.`;
}

/** Prints what is known of one thing, a line each: its name and its text, if there is one. */
export function printFields(
  terminal: Terminal,
  fields: readonly (readonly [string, string | undefined])[],
): void {
  const width = Math.max(...fields.map(([name]) => name.length));
  for (const [name, text] of fields) {
    if (text !== undefined)
      terminal.print(`${terminal.style.strong(name.padEnd(width))}${gap}${printable(text)}`);
  }
}

const gap = "  ";

function textOf(cell: Cell, form: "full" | "short"): string {
  return typeof cell === "string" ? cell : cell[form];
}

function lineWidth(widths: readonly number[]): number {
  const shown = widths.filter((width) => width > 0);
  return shown.reduce((sum, width) => sum + width, 0) + gap.length * Math.max(shown.length - 1, 0);
}

/**
 * The widths that fit in a line; 0 for a column that is left out. What may be left out is shown
 * whole or not at all, so the others are cut before it goes.
 */
function fitWidths(columns: readonly Column[], wanted: readonly number[], widthMax: number): number[] {
  const widths = [...wanted];
  const leastWidth = () =>
    lineWidth(
      widths.map((width, column) => {
        const { least = width, spare } = columns[column] ?? {};
        return spare === undefined ? Math.min(width, least) : width;
      }),
    );
  const spare = columns
    .flatMap(({ spare: rank }, column) => (rank === undefined ? [] : [{ rank, column }]))
    .sort((a, b) => a.rank - b.rank)
    .map(({ column }) => column);
  while (leastWidth() > widthMax && spare.length > 0) widths[spare.shift() ?? 0] = 0;
  const room = (column: number) =>
    columns[column]?.spare === undefined
      ? (widths[column] ?? 0) - (columns[column]?.least ?? Number.POSITIVE_INFINITY)
      : 0;
  for (let over = lineWidth(widths) - widthMax; over > 0; over--) {
    // The widest goes first, so that short cells stay whole.
    const [widest] = widths
      .map((_, column) => column)
      .filter((column) => room(column) > 0)
      .sort((a, b) => (widths[b] ?? 0) - (widths[a] ?? 0));
    if (widest === undefined) break;
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
  return widths;
}

/** A time in UTC: to the second (RFC 3339), and to the minute for narrow terminals. */
export function timeCell(time: string | undefined, absent = "-"): Cell {
  if (time === undefined) return absent;
  const full = timeWords(time);
  return { full, short: full.replace(/:\d\dZ$/, "Z") };
}

/** The time in UTC, to the second. */
export function timeWords(time: string): string {
  return time.replace(/\.\d+Z$/, "Z");
}

/**
 * Measures these texts in columns of a terminal, where CJK and emoji take two. Loads the tables of
 * Unicode only if one of the texts needs them.
 */
async function rulerFor(texts: readonly string[]) {
  const isPlain = texts.every((text) => plain.test(text));
  const widthOf = isPlain ? (text: string) => text.length : (await import("string-width")).default;
  return {
    widthOf,
    /** The text, or what fits of it before a "…". */
    cut(text: string, columns: number): string {
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
