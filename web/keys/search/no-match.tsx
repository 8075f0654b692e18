import { Icon } from "../../controls/icon.tsx";
import { keyCounts } from "../key-pages.ts";
import type { KeyView } from "../key-view.ts";
import type { useKeyList } from "../use-key-list.ts";

interface NoMatchProps {
  readonly list: ReturnType<typeof useKeyList>;
  readonly view: KeyView;
  onView(change: Partial<KeyView>): void;
}

/** What stands in place of the rows when the view holds no key. */
export function NoMatch({ list, view, onView }: NoMatchProps) {
  const { query, unusedOnly, showPast } = view;
  const past = list.data ? keyCounts(list.data).past : 0;
  return (
    <div className="no-match">
      <span className="empty-icon">
        <Icon name="search" />
      </span>
      <h2>
        {list.hasNextPage ? (
          "No match among the newest keys"
        ) : query === "" ? (
          "No key was unused for 90 days"
        ) : (
          <>
            No {unusedOnly && "unused "}key matches “<bdi>{query}</bdi>”
          </>
        )}
      </h2>
      <p className="muted">
        {query === ""
          ? "Every key was used, or created, within this time."
          : "The search looks for a part of the label, the beginning of the id, or the key as the list shows it."}
      </p>
      <div className="no-match-actions">
        <button
          type="button"
          className="button button-small"
          onClick={() => onView({ query: "", unusedOnly: false })}
        >
          Show all keys
        </button>
        {!showPast && past > 0 && (
          <button type="button" className="button button-small" onClick={() => onView({ showPast: true })}>
            Search past keys, too
          </button>
        )}
      </div>
    </div>
  );
}
