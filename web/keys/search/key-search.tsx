import { type ClipboardEvent, useEffect, useRef, useState } from "react";
import { bounds } from "../../bounds.ts";
import { Icon } from "../../controls/icon.tsx";
import { useServices } from "../../services.tsx";
import type { KeyView } from "../key-view.ts";
import { isNarrowed } from "../key-view.ts";
import { searchText } from "./search-text.ts";
import { foundInWords, sortInWords } from "./search-words.ts";

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
  const { query } = view;
  const [text, setText] = useState(query);
  const field = useRef<HTMLInputElement>(null);
  const search = useRef(onView);
  search.current = onView;
  useAnnouncements({ view, found, busy, more });

  useEffect(() => {
    // Cleared from elsewhere, for example because a new key must be seen.
    if (query === "") setText("");
  }, [query]);
  useEffect(() => {
    const wanted = text.trim();
    if (wanted === query) return;
    const timer = setTimeout(
      () => search.current({ query: wanted }),
      wanted === "" ? 0 : bounds.searchDelayMs,
    );
    return () => clearTimeout(timer);
  }, [text, query]);

  /** Puts a pasted text in itself, so that the secret of a whole key never gets into the field. */
  function paste(event: ClipboardEvent<HTMLInputElement>) {
    const pasted = event.clipboardData.getData("text");
    const cut = searchText(pasted);
    if (cut === pasted) return;
    event.preventDefault();
    const { value, selectionStart, selectionEnd } = event.currentTarget;
    const start = selectionStart ?? value.length;
    setText(searchText(value.slice(0, start) + cut + value.slice(selectionEnd ?? start)));
  }
  function clear() {
    setText("");
    field.current?.focus();
  }

  return (
    <search className="search" aria-busy={busy}>
      <Icon name="search" />
      <input
        ref={field}
        type="search"
        aria-label="Search keys by label, key or id"
        placeholder="Search by label, key or id"
        value={text}
        autoComplete="off"
        autoCapitalize="off"
        spellCheck={false}
        data-1p-ignore
        data-lpignore="true"
        onPaste={paste}
        onChange={(event) => setText(searchText(event.currentTarget.value))}
        onKeyDown={(event) => {
          if (event.key === "Escape") setText("");
        }}
      />
      {text !== "" && (
        <button type="button" className="icon-button" aria-label="Clear search" onClick={clear}>
          <Icon name="close" />
        </button>
      )}
    </search>
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
    if (before.sort !== view.sort) status.say(sortInWords(view.sort));
    else if (isNarrowed(view)) status.say(foundInWords(found, more));
    else if (isNarrowed(before)) status.say("All keys are shown");
  }, [view, found, busy, more, status]);
}
