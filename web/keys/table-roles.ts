/**
 * The roles that table elements have by themselves, written out. Narrow windows show the rows as
 * cards, and some browsers drop the roles of a table whose `display` is changed.
 */
export const tableRoles = {
  table: { role: "table" },
  rowGroup: { role: "rowgroup" },
  row: { role: "row" },
  columnHeader: { role: "columnheader", scope: "col" },
  rowHeader: { role: "rowheader", scope: "row" },
  cell: { role: "cell" },
} as const;
