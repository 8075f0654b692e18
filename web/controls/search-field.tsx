import { type ClipboardEvent, useEffect, useRef, useState } from "react";
import { bounds } from "../bounds.ts";
import { Icon } from "./icon.tsx";
import { searchText } from "./search-text.ts";

interface SearchFieldProps {
  readonly label: string;
  readonly placeholder: string;
  /** What is searched for now. */
  readonly query: string;
  /** True while the answer is being read. */
  readonly busy: boolean;
  onSearch(query: string): void;
}

/**
 * A field that searches while a person types, and soon after the last letter. It never holds the
 * secret of a key.
 */
export function SearchField({ label, placeholder, query, busy, onSearch }: SearchFieldProps) {
  const [text, setText] = useState(query);
  const field = useRef<HTMLInputElement>(null);
  const search = useRef(onSearch);
  search.current = onSearch;

  useEffect(() => {
    // Cleared from elsewhere, for example because a new key must be seen.
    if (query === "") setText("");
  }, [query]);
  useEffect(() => {
    const wanted = text.trim();
    if (wanted === query) return;
    const timer = setTimeout(() => search.current(wanted), wanted === "" ? 0 : bounds.searchDelayMs);
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
        aria-label={label}
        placeholder={placeholder}
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
