import { type ReactNode, useId } from "react";
import type { AuditEvent } from "../api/messages.ts";
import { Icon } from "../controls/icon.tsx";
import { SearchField } from "../controls/search-field.tsx";
import { actionChoices } from "./event-words.ts";
import type { ActivityView } from "./use-activity.ts";

interface ActivityFiltersProps {
  readonly events: readonly AuditEvent[];
  readonly view: ActivityView;
  /** True while the events of the view are being read. */
  readonly busy: boolean;
  onView(change: Partial<ActivityView>): void;
}

/**
 * Leaves out events by what was done, on what, by whom, and when. The people are those of the
 * events shown.
 */
export function ActivityFilters({ events, view, busy, onView }: ActivityFiltersProps) {
  const actors = new Set(events.map(({ actor = "" }) => actor));
  if (view.actor !== "") actors.add(view.actor);
  return (
    <div className="toolbar activity-filters">
      <SearchField
        label="Search by key, person or app"
        placeholder="Key, person or app"
        query={view.query}
        busy={busy}
        onSearch={(query) => onView({ query })}
      />
      <Choice
        label="What"
        all="Everything"
        chosen={view.action}
        choices={actionChoices}
        onChoose={(action) => onView({ action })}
      />
      <Choice
        label="Who"
        all="Everyone"
        chosen={view.actor}
        choices={[...actors].sort().map((actor) => ({ value: actor, words: actor }))}
        onChoose={(actor) => onView({ actor })}
      />
      <Day label="From" day={view.from} max={view.to} onChoose={(from) => onView({ from })} />
      <Day label="To" day={view.to} min={view.from} onChoose={(to) => onView({ to })} />
    </div>
  );
}

interface DayProps {
  readonly label: string;
  readonly day: string;
  readonly min?: string;
  readonly max?: string;
  onChoose(day: string): void;
}

/** A local day, chosen in the browser's own way. Empty text is none. */
function Day({ label, day, onChoose, ...range }: DayProps) {
  return (
    <Filter label={label}>
      {(id) => (
        <input
          id={id}
          type="date"
          value={day}
          {...range}
          onChange={({ currentTarget: { value } }) => onChoose(value)}
        />
      )}
    </Filter>
  );
}

interface ChoiceProps {
  readonly label: string;
  /** The words for no filter. */
  readonly all: string;
  readonly chosen: string;
  readonly choices: readonly { readonly value: string; readonly words: string }[];
  onChoose(value: string): void;
}

function Choice({ label, all, chosen, choices, onChoose }: ChoiceProps) {
  return (
    <Filter label={label}>
      {(id) => (
        <div className="select select-small">
          <select id={id} value={chosen} onChange={(event) => onChoose(event.currentTarget.value)}>
            <option value="">{all}</option>
            {choices.map(({ value, words }) => (
              <option key={value} value={value}>
                {words}
              </option>
            ))}
          </select>
          <Icon name="sort" />
        </div>
      )}
    </Filter>
  );
}

/** A label and its control, which has this id. */
function Filter({ label, children }: { label: string; children: (id: string) => ReactNode }) {
  const id = useId();
  return (
    <div className="filter">
      <label htmlFor={id}>{label}</label>
      {children(id)}
    </div>
  );
}
