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

export const columns = ["Label", "Key", "Created", "Last used"] as const;

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

export function KeysTableHead() {
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
