import { useEffect, useRef } from "react";
import { SearchField } from "../../controls/search-field.tsx";
import { useServices } from "../../services.tsx";
import { isNarrowed, type KeyView, sortOf } from "../key-view.ts";
import { foundInWords } from "../key-words.ts";
import { sortInWords } from "./search-words.ts";

interface KeySearchProps {
  readonly view: KeyView;
  /** How many keys the view shows. */
  readonly found: number;
  /** True while the keys of the view are being read. */
  readonly busy: boolean;
  /** True when more keys can be loaded. */
  readonly more: boolean;
  onView(change: Partial<KeyView>): void;
}

/** The search field above the list. It also says how many keys the view holds, and their order. */
export function KeySearch({ view, found, busy, more, onView }: KeySearchProps) {
  useAnnouncements({ view, found, busy, more });
  return (
    <SearchField
      label="Search keys by label, key or id"
      placeholder="Search by label, key or id"
      query={view.query}
      busy={busy}
      onSearch={(query) => onView({ query })}
    />
  );
}

/** Tells screen readers what a change of the view did, once the keys are there. */
function useAnnouncements({ view, found, busy, more }: Omit<KeySearchProps, "onView">) {
  const { status } = useServices();
  const said = useRef(view);
  useEffect(() => {
    const before = said.current;
    if (busy || before === view) return;
    said.current = view;
    const sort = sortOf(view);
    if (before.past === view.past && sortOf(before) !== sort) status.say(sortInWords(sort));
    else if (isNarrowed(view)) status.say(foundInWords(found, more));
    else if (isNarrowed(before)) status.say("All keys are shown");
  }, [view, found, busy, more, status]);
}
