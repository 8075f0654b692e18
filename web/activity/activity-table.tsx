import type { AuditEvent, Key } from "../api/messages.ts";
import { bounds } from "../bounds.ts";
import { Ago } from "../keys/ago.tsx";
import { tableRoles } from "../keys/table-roles.ts";
import { useServices } from "../services.tsx";
import { dayInWords } from "../time/day-format.ts";
import { timeOfDay } from "../time/local-format.ts";
import { useTicking } from "../time/ticker.ts";
import { actionInWords, detailInWords, originInWords, outcomeInWords } from "./event-words.ts";

interface ActivityTableProps {
  readonly events: readonly AuditEvent[];
  readonly teamName: string;
  /** The keys that an event may name, by their ids. */
  readonly keyNames: ReadonlyMap<string, Pick<Key, "label" | "redactedValue">>;
  /** True when the last read failed, so that the events may be out of date. */
  readonly stale: boolean;
}

/** The events, newest first. Narrow windows show the rows of the table as cards. */
export function ActivityTable({ events, teamName, keyNames, stale }: ActivityTableProps) {
  return (
    <table {...tableRoles.table} className={stale ? "activity stale" : "activity"}>
      <caption className="visually-hidden">Activity of {teamName}</caption>
      <Head />
      <tbody {...tableRoles.rowGroup}>
        {events.map((event) => (
          <EventRow key={event.id} event={event} keyNames={keyNames} />
        ))}
      </tbody>
    </table>
  );
}

const columns = ["What", "On", "Who", "When"];

function Head() {
  return (
    <thead {...tableRoles.rowGroup}>
      <tr {...tableRoles.row}>
        {columns.map((words) => (
          <th key={words} {...tableRoles.columnHeader}>
            {words}
          </th>
        ))}
      </tr>
    </thead>
  );
}

function EventRow({ event, keyNames }: { event: AuditEvent } & Pick<ActivityTableProps, "keyNames">) {
  const outcome = outcomeInWords(event);
  const origin = originInWords(event);
  const key = keyNames.get(event.target ?? "");
  const details = detailInWords(event, (keyId) => keyNames.get(keyId)?.redactedValue ?? keyId);
  return (
    <tr {...tableRoles.row}>
      <th {...tableRoles.rowHeader}>
        {actionInWords(event)}
        {outcome !== "" && <span className="event-outcome">{outcome}</span>}
      </th>
      <td {...tableRoles.cell}>
        <span>
          {key?.label && <bdi className="event-subject">{key.label}</bdi>}{" "}
          {event.target && <code>{key?.redactedValue ?? event.target}</code>}
        </span>
        {details.length > 0 && <span>{details.join(" · ")}</span>}
      </td>
      <td {...tableRoles.cell}>
        <bdi className="event-name">{event.actor}</bdi>
        {origin !== "" && <span>{origin}</span>}
      </td>
      <td {...tableRoles.cell}>
        {event.time && (
          <>
            <Ago time={event.time} />
            <span className="event-clock">
              <Clock ms={Date.parse(event.time)} />
            </span>
          </>
        )}
      </td>
    </tr>
  );
}

/** The time of day, or the day if it is longer ago. */
function Clock({ ms }: { ms: number }) {
  const { ticker } = useServices();
  return useTicking(ticker, (nowMs) => (nowMs - ms < bounds.recentUseMs ? timeOfDay(ms) : dayInWords(ms)));
}

/** The table while it is loading, with empty rows. */
export function ActivityLoading() {
  return (
    <table {...tableRoles.table} className="activity skeleton" aria-busy="true">
      <caption className="visually-hidden">Loading the activity</caption>
      <Head />
      <tbody {...tableRoles.rowGroup}>
        {["first", "second", "third"].map((row) => (
          <tr key={row} {...tableRoles.row}>
            {columns.map((words) => (
              <td key={words} {...tableRoles.cell}>
                <span className="skeleton-line" />
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
