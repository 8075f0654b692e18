import { bounds } from "../bounds.ts";
import { useParts } from "../lazy/load-parts.ts";
import { type KeyCounts, keyCounts } from "./key-pages.ts";
import { firstView, isNarrowed, type KeyView } from "./key-view.ts";
import { countsInWords } from "./key-words.ts";
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
      <p className="muted counts">{countsInWords(counts)}</p>
      {/* Only where all keys are loaded can the page tell which were not used. */}
      {(view.unusedOnly || (searchable && !list.hasNextPage)) && (
        <Check checked={view.unusedOnly} onChange={(unusedOnly) => onView({ unusedOnly })}>
          Unused for 90 days
        </Check>
      )}
      <Check checked={view.showPast} onChange={(showPast) => onView({ showPast })}>
        Show past keys
      </Check>
    </div>
  );
}

/**
 * True when so many keys are there that a search, a filter and an order help, or when one of them
 * was chosen before: it must be possible to take that back.
 */
export function isSearchable(counts: KeyCounts, view: KeyView): boolean {
  const listed = counts.active + (view.showPast ? counts.past : 0);
  return isNarrowed(view) || view.sort !== firstView.sort || listed >= bounds.keysToSearchMin;
}

interface CheckProps {
  readonly checked: boolean;
  onChange(checked: boolean): void;
  readonly children: string;
}

function Check({ checked, onChange, children }: CheckProps) {
  return (
    <label className="check">
      <input type="checkbox" checked={checked} onChange={(event) => onChange(event.currentTarget.checked)} />
      {children}
    </label>
  );
}
