import { failureOf } from "../api/failure.ts";
import { FailureNote } from "../controls/failure-note.tsx";
import { Icon } from "../controls/icon.tsx";
import { LoadMore, Retry } from "../controls/list-buttons.tsx";
import { ActivityFilters } from "./activity-filters.tsx";
import { ActivityLoading, ActivityTable } from "./activity-table.tsx";
import { type Activity, type ActivityView, everything, useKeyNames } from "./use-activity.ts";

interface ActivitySectionProps {
  readonly teamId: string;
  readonly teamName: string;
  readonly activity: Activity;
  readonly view: ActivityView;
  onView(change: Partial<ActivityView>): void;
}

/** The events, in each of the states of their list. */
export function ActivitySection(props: ActivitySectionProps) {
  const { teamId, teamName, activity, view, onView } = props;
  const keyNames = useKeyNames(teamId);
  const { data } = activity;
  const events = data?.pages.flatMap((page) => page.events ?? []) ?? [];
  const filtered = Object.values(view).some((value) => value !== "");
  return (
    <section className="card" aria-label="Events">
      {activity.isError && <Failed activity={activity} stale={data !== undefined} />}
      {(data !== undefined || !activity.isError) && (
        <ActivityFilters {...{ events, view, onView }} busy={activity.isPlaceholderData} />
      )}
      {data === undefined && !activity.isError && <ActivityLoading />}
      {data !== undefined && events.length === 0 && <NoEvents filtered={filtered} onView={onView} />}
      {events.length > 0 && <ActivityTable {...{ events, teamName, keyNames }} stale={activity.isError} />}
      <LoadMore list={activity} />
    </section>
  );
}

function NoEvents({ filtered, onView }: { filtered: boolean } & Pick<ActivitySectionProps, "onView">) {
  return (
    <div className="no-match">
      <span className="empty-icon">
        <Icon name="pulse" />
      </span>
      <h2>{filtered ? "No event fits the filters" : "Nothing has happened yet"}</h2>
      <p className="muted">
        {filtered
          ? "Events on other keys, by other people, of another kind or of other days are left out."
          : "A change to the team’s keys shows here as soon as it is made."}
      </p>
      {filtered && (
        <div className="no-match-actions">
          <button type="button" className="button button-small" onClick={() => onView(everything)}>
            Show all events
          </button>
        </div>
      )}
    </div>
  );
}

function Failed({ activity, stale }: { activity: Activity; stale: boolean }) {
  return (
    <FailureNote failure={failureOf(activity.error)} action={<Retry read={activity} />}>
      Couldn’t load the activity.{stale && " What you see may be out of date."}
    </FailureNote>
  );
}
