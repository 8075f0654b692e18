import { Icon } from "../../controls/icon.tsx";
import { keyCounts } from "../key-pages.ts";
import { isNarrowed, type KeyView } from "../key-view.ts";
import type { useKeyList } from "../use-key-list.ts";

interface NoMatchProps {
  readonly list: ReturnType<typeof useKeyList>;
  readonly view: KeyView;
  onView(change: Partial<KeyView>): void;
}

/** What stands in place of the rows when the view holds no key. */
export function NoMatch({ list, view, onView }: NoMatchProps) {
  const { query, unusedOnly, past } = view;
  const pastCount = list.data ? keyCounts(list.data).past : 0;
  return (
    <div className="no-match">
      <span className="empty-icon">
        <Icon name="search" />
      </span>
      <h2>
        {query !== "" ? (
          <>
            No {past ? "past " : unusedOnly && "unused "}key matches “<bdi>{query}</bdi>”
          </>
        ) : past ? (
          "No past keys"
        ) : (
          "No key was unused for 90 days"
        )}
      </h2>
      <p className="muted">
        {query !== ""
          ? "The search looks for a part of the label, the beginning of the id, or the key as the list shows it."
          : past
            ? "Keys that were revoked or have expired show here."
            : "Every key was used, or created, within this time."}
      </p>
      <div className="no-match-actions">
        {isNarrowed(view) && (
          <button
            type="button"
            className="button button-small"
            onClick={() => onView({ query: "", unusedOnly: false })}
          >
            Show all {past && "past "}keys
          </button>
        )}
        {(past || (query !== "" && pastCount > 0)) && (
          <button
            type="button"
            className="button button-small"
            onClick={() => onView({ past: !past, unusedOnly: false })}
          >
            {query === "" ? "Show active keys" : past ? "Search active keys" : "Search past keys"}
          </button>
        )}
      </div>
    </div>
  );
}
