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
  /** Whether the keys are past ones. */
  readonly past: boolean;
  /** The order of the rows; null where it can't be chosen. */
  readonly sort: KeySort | null;
  onSort(sort: KeySort): void;
  onOpen(key: Key): void;
  onRevoke(key: Key): void;
  onMenu(key: Key): void;
}

/** Before the one of the actions. */
export const columns = [
  { words: "Label" },
  { words: "Key" },
  { words: "Created", by: "created" },
  { words: "Last used", by: "used", below: "Requests in 30 days" },
  { words: "Expires", by: "expires", past: { words: "Ended", by: "ended" } },
] as const;

/** The keys. Narrow windows show the rows of the table as cards. */
export function KeysTable(props: KeysTableProps) {
  const { teamName, rows, newKeyIds, lines, departing, stale, past, sort, onSort, ...actions } = props;
  return (
    <table {...tableRoles.table} className={stale ? "keys stale" : "keys"}>
      <caption className="visually-hidden">API keys of {teamName}</caption>
      <KeysTableHead {...{ past, sort, onSort }} />
      <tbody {...tableRoles.rowGroup}>
        {rows.map((key) => (
          <KeyRow
            key={key.id}
            apiKey={key}
            isNew={newKeyIds.has(key.id)}
            line={lines.get(key.id)}
            departing={departing.has(key.id)}
            {...actions}
          />
        ))}
      </tbody>
    </table>
  );
}

interface KeysTableHeadProps {
  readonly past?: boolean;
  readonly sort: KeySort | null;
  onSort?(sort: KeySort): void;
}

export function KeysTableHead({ past, sort, onSort }: KeysTableHeadProps) {
  return (
    <thead {...tableRoles.rowGroup} className={sort ? "sortable" : undefined}>
      <tr {...tableRoles.row}>
        {columns.map((column) => {
          const { words, by } = past && "past" in column ? column.past : { by: undefined, ...column };
          const order = by !== undefined && sort?.by === by ? sort.order : undefined;
          return (
            <th key={words} {...tableRoles.columnHeader} aria-sort={order}>
              {sort && by ? (
                <button
                  type="button"
                  className="sort"
                  onClick={() => onSort?.({ by, order: nextOrder(by, order) })}
                >
                  {words}
                  <Icon name={order ? "arrow" : "sort"} />
                </button>
              ) : (
                words
              )}
              {"below" in column && <span className="head-below">{column.below}</span>}
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

/** At first the newest of what was, and the soonest of what comes. */
function nextOrder(by: KeySort["by"], order: KeySort["order"] | undefined): KeySort["order"] {
  const first = by === "expires" ? "ascending" : "descending";
  return order === first ? (first === "ascending" ? "descending" : "ascending") : first;
}
