import { columns, KeysTableHead } from "./keys-table.tsx";
import { tableRoles } from "./table-roles.ts";

/**
 * The card of the keys while they are loading, with three empty rows. The rows show after
 * `skeletonDelayMs` (see keys.css), or at once if others stood there before.
 */
export function KeysLoading({ atOnce }: { atOnce: boolean }) {
  return (
    <section className="card" aria-label="Keys">
      <div className="toolbar" />
      <table
        {...tableRoles.table}
        className={atOnce ? "keys skeleton at-once" : "keys skeleton"}
        aria-busy="true"
      >
        <caption className="visually-hidden">API keys</caption>
        <KeysTableHead sort={null} />
        <tbody {...tableRoles.rowGroup}>
          {["first", "second", "third"].map((row) => (
            <tr key={row} {...tableRoles.row}>
              {[...columns, { words: "Actions" }].map(({ words }) => (
                <td key={words} {...tableRoles.cell}>
                  <span className="skeleton-line" />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** True while a person sees empty rows, so that the next ones don't start with a gap. */
export function isSkeletonShown(): boolean {
  const skeleton = document.querySelector(".skeleton");
  return skeleton !== null && getComputedStyle(skeleton).visibility === "visible";
}
