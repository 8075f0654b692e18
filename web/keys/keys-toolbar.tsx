import { bounds } from "../bounds.ts";
import { Segments } from "../controls/segments.tsx";
import { useParts } from "../lazy/load-parts.ts";
import { isActive, type KeyCounts, keyCounts, keysOf } from "./key-pages.ts";
import { firstView, isNarrowed, type KeyView } from "./key-view.ts";
import { countsInWords, foundInWords } from "./key-words.ts";
import type { useKeyList } from "./use-key-list.ts";

interface KeysToolbarProps {
  readonly list: ReturnType<typeof useKeyList>;
  readonly view: KeyView;
  /** How many rows the view shows. */
  readonly found: number;
  onView(change: Partial<KeyView>): void;
}

/** How many keys there are, and which of them to show. */
export function KeysToolbar({ list, view, found, onView }: KeysToolbarProps) {
  const parts = useParts();
  if (list.data === undefined) return <div className="toolbar" />;
  const counts = keyCounts(list.data);
  const busy = list.isPlaceholderData;
  const searchable = isSearchable(counts, view);
  return (
    <div className="toolbar">
      {/* An empty box of the same size until the field is loaded, so that nothing moves. */}
      {searchable &&
        (typeof parts === "object" ? (
          <parts.KeySearch {...{ view, found, busy, more: list.hasNextPage, onView }} />
        ) : (
          <div className="search" />
        ))}
      <p className="muted counts">
        {isNarrowed(view)
          ? foundInWords(found, list.hasNextPage)
          : countsInWords(counts, view.past ? 0 : keysOf(list.data).filter(isActive).length)}
      </p>
      {searchable && !view.past && (
        <label className="check">
          <input
            type="checkbox"
            checked={view.unusedOnly}
            onChange={({ currentTarget }) => onView({ unusedOnly: currentTarget.checked })}
          />
          Unused for 90 days
        </label>
      )}
      <fieldset>
        <legend className="visually-hidden">Keys to show</legend>
        <Segments
          choices={[
            { value: "active", words: "Active" },
            { value: "past", words: "Past" },
          ]}
          chosen={view.past ? "past" : "active"}
          onChoose={(shown) => onView({ past: shown === "past", unusedOnly: false })}
        />
      </fieldset>
    </div>
  );
}

/**
 * True when so many keys are there that a search, a filter and an order help, or when one of them
 * was chosen before: it must be possible to take that back.
 */
export function isSearchable(counts: KeyCounts, view: KeyView): boolean {
  const most = Math.max(counts.active, counts.past);
  const isSorted = view.sort !== firstView.sort || view.pastSort !== firstView.pastSort;
  return isNarrowed(view) || isSorted || most >= bounds.keysToSearchMin;
}
