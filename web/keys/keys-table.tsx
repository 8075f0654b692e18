import type { Key } from "../api/messages.ts";
import { Icon } from "../controls/icon.tsx";
import type { KeyLines } from "../usage/lines/usage-lines.tsx";
import { KeyRow } from "./key-row.tsx";
import type { KeySort } from "./key-view.ts";
import { tableRoles } from "./table-roles.ts";

interface KeysTableProps {
  readonly teamName: string;
  readonly rows: readonly Key[];
  readonly newKeyIds: ReadonlySet<string>;
  readonly lines: KeyLines;
  readonly departing: ReadonlyMap<string, Key>;
  /** True when the last read failed, so that the rows may be out of date. */
  readonly stale: boolean;
  /** The order of the rows; null where it can't be chosen. */
  readonly sort: KeySort | null;
  onSort(sort: KeySort): void;
  onOpen(key: Key): void;
  onRevoke(key: Key): void;
}

export const columns = [
  { words: "Label" },
  { words: "Key" },
  { words: "Created", by: "created" },
  { words: "Last used", by: "used" },
] as const;

/** The keys. Narrow windows show the rows of the table as cards. */
export function KeysTable(props: KeysTableProps) {
  const { teamName, rows, newKeyIds, lines, departing, stale, sort, onSort, onOpen, onRevoke } = props;
  return (
    <table {...tableRoles.table} className={stale ? "keys stale" : "keys"}>
      <caption className="visually-hidden">API keys of {teamName}</caption>
      <KeysTableHead sort={sort} onSort={onSort} />
      <tbody {...tableRoles.rowGroup}>
        {rows.map((key) => (
          <KeyRow
            key={key.id}
            apiKey={key}
            isNew={newKeyIds.has(key.id)}
            line={lines.get(key.id)}
            departing={departing.has(key.id)}
            onOpen={onOpen}
            onRevoke={onRevoke}
          />
        ))}
      </tbody>
    </table>
  );
}

export function KeysTableHead({ sort, onSort }: { sort: KeySort | null; onSort?(sort: KeySort): void }) {
  return (
    <thead {...tableRoles.rowGroup} className={sort ? "sortable" : undefined}>
      <tr {...tableRoles.row}>
        {columns.map(({ words, ...column }) => {
          const by = "by" in column ? column.by : undefined;
          const order = by !== undefined && sort?.by === by ? sort.order : undefined;
          return (
            <th key={words} {...tableRoles.columnHeader} aria-sort={order}>
              {sort && by ? (
                <button
                  type="button"
                  className="sort"
                  onClick={() => onSort?.({ by, order: order === "descending" ? "ascending" : "descending" })}
                >
                  {words}
                  <Icon name={order ? "arrow" : "sort"} />
                </button>
              ) : (
                words
              )}
            </th>
          );
        })}
        <th {...tableRoles.columnHeader}>
          <span className="visually-hidden">Actions</span>
        </th>
      </tr>
    </thead>
  );
}
