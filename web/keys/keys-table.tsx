import type { Key } from "#gen/keyrun/v1/key_pb.ts";
import { KeyRow } from "./key-row.tsx";
import { tableRoles } from "./table-roles.ts";

interface KeysTableProps {
  readonly teamName: string;
  readonly keys: readonly Key[];
  readonly newKeyIds: ReadonlySet<string>;
  readonly departing: ReadonlyMap<string, Key>;
  /** True when the last read failed, so that the rows may be out of date. */
  readonly stale: boolean;
  onRevoke(key: Key): void;
}

const columns = ["Label", "Key", "Created", "Last used"] as const;

/** The keys, newest first. Narrow windows show the rows of the table as cards. */
export function KeysTable({ teamName, keys, newKeyIds, departing, stale, onRevoke }: KeysTableProps) {
  return (
    <table {...tableRoles.table} className={stale ? "keys stale" : "keys"}>
      <caption className="visually-hidden">API keys of {teamName}</caption>
      <KeysTableHead />
      <tbody {...tableRoles.rowGroup}>
        {keys.map((key) => (
          <KeyRow
            key={key.id}
            apiKey={key}
            isNew={newKeyIds.has(key.id)}
            departing={departing.has(key.id)}
            onRevoke={onRevoke}
          />
        ))}
      </tbody>
    </table>
  );
}

/** Three empty rows as high as those of keys, so that nothing moves when the keys arrive. */
export function KeysSkeleton({ shown }: { shown: boolean }) {
  return (
    <table
      {...tableRoles.table}
      className={shown ? "keys skeleton" : "keys skeleton not-yet"}
      aria-busy="true"
    >
      <caption className="visually-hidden">API keys</caption>
      <KeysTableHead />
      <tbody {...tableRoles.rowGroup}>
        {["first", "second", "third"].map((row) => (
          <tr key={row} {...tableRoles.row}>
            {[...columns, "Actions"].map((column) => (
              <td key={column} {...tableRoles.cell}>
                <span className="skeleton-line" />
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function KeysTableHead() {
  return (
    <thead {...tableRoles.rowGroup}>
      <tr {...tableRoles.row}>
        {columns.map((column) => (
          <th key={column} {...tableRoles.columnHeader}>
            {column}
          </th>
        ))}
        <th {...tableRoles.columnHeader}>
          <span className="visually-hidden">Actions</span>
        </th>
      </tr>
    </thead>
  );
}
