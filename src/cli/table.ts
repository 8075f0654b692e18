import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";

/** Lines of aligned columns, two spaces apart. Widths are counted in code points. */
export function renderTable(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const lines = [head, ...rows];
  const widths = head.map((_, column) =>
    Math.max(...lines.map((cells) => [...(cells[column] ?? "")].length)),
  );
  return lines.map((cells) =>
    cells
      .map((cell, column) => cell + " ".repeat((widths[column] ?? 0) - [...cell].length))
      .join("  ")
      .trimEnd(),
  );
}

/** The time in UTC, to the second (RFC 3339); `absent` if there is none. */
export function renderTime(time: Timestamp | undefined, absent = "-"): string {
  return time === undefined
    ? absent
    : timestampDate(time)
        .toISOString()
        .replace(/\.\d+Z$/, "Z");
}
