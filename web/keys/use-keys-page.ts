import { useEffect, useRef, useState } from "react";
import { flushSync } from "react-dom";
import type { Key } from "../api/messages.ts";
import { useServices } from "../services.tsx";
import type { KeyLines } from "../usage/lines/usage-lines.tsx";
import { isActive, keyCounts, keysOf, visibleKeys } from "./key-pages.ts";
import { detailsButtonId, revokeButtonId } from "./key-row.tsx";
import {
  arranged,
  firstView,
  isNarrowed,
  isSortable,
  type KeyView,
  listedOrder,
  needsAllPages,
} from "./key-view.ts";
import { keyAsSubject } from "./key-words.ts";
import { useDepartingKeys } from "./use-departing-keys.ts";
import { useKeyList, useKeyListWriter } from "./use-key-list.ts";

/** The dialog that is open on the page. */
export type KeysDialog = {
  /** The id of the button that gets the focus when the dialog closes. */
  readonly opener: string;
} & (
  | { readonly kind: "create" }
  | {
      readonly kind: "details" | "edit" | "rotate";
      readonly key: Key;
      /** Whether the dialog was reached from the details, and leads back there. */
      readonly fromDetails?: boolean;
    }
  | {
      readonly kind: "revoke";
      readonly key: Key;
      /** The keys of the rows below, for the focus when this row has gone. */
      readonly below: readonly Key[];
      /** The key as it has ended, if that was not done here. */
      readonly endedElsewhere: Key | null;
    }
);

/**
 * The state and the actions of the page of a team's keys: its list, and the one open dialog.
 */
export function useKeysPage(teamId: string) {
  const { status, ticker } = useServices();
  const [view, setView] = useState(firstView);
  const [newKeyIds, setNewKeyIds] = useState<ReadonlySet<string>>(new Set());
  const [dialog, setDialog] = useState<KeysDialog | null>(null);
  /** The key whose menu is open. */
  const [menu, setMenu] = useState<Key | null>(null);
  const [paused, setPaused] = useState(false);
  const [lines, setLines] = useState<KeyLines>(new Map());
  const writer = useKeyListWriter(teamId);
  const { departing, depart, forget } = useDepartingKeys();
  const heading = useRef<HTMLHeadingElement>(null);
  /** The key that this page is ending. Its end is not announced as someone else's. */
  const endingId = useRef<string | null>(null);
  /**
   * The keys that this page showed as active. Their end is announced even if the list is read
   * without them before the stream reports it.
   */
  const shownActive = useRef(new Set<string>());
  const list = useKeyList({ teamId, past: view.past, query: view.query, paused });
  useFurtherPages(list, view);
  const sortable = list.data && isSortable(view, keyCounts(list.data), list.hasNextPage);
  const shown = sortable ? view : { ...view, pastSort: listedOrder };
  const rows = list.data
    ? arranged(visibleKeys(list.data, view.past, departing), shown, ticker.unixMs())
    : [];
  useEffect(() => {
    if (list.data === undefined) return;
    for (const key of keysOf(list.data).filter(isActive)) shownActive.current.add(key.id);
  }, [list.data]);

  function onChanged(key: Key) {
    const news = !isActive(key) && shownActive.current.delete(key.id) && endingId.current !== key.id;
    // A narrowed view may not hold the key. Then no row may appear only to say that it goes.
    const inView = (!isNarrowed(view) && !view.past) || rows.some((one) => one.id === key.id);
    writer.changed(key);
    setDialog((open) => withKey(open, key, news));
    if (!news) return;
    if (inView) depart(key);
    const what = key.state === "KEY_STATE_EXPIRED" ? "has expired" : `was revoked by ${key.revokedBy ?? ""}`;
    status.say(`${keyAsSubject(key)} ${what}`);
  }
  function changeView(change: Partial<KeyView>) {
    setView((before) => ({ ...before, ...change }));
    forget();
  }
  function openDetails(key: Key) {
    setDialog({ kind: "details", key, opener: detailsButtonId(key.id) });
  }
  function openRevoke(key: Key) {
    const below = rows.slice(rows.findIndex((one) => one.id === key.id) + 1);
    setDialog({ kind: "revoke", key, below, endedElsewhere: null, opener: revokeButtonId(key.id) });
  }
  /** Closes the dialog. The first of the elements that is there to be seen gets the focus. */
  function close(...focusIds: string[]) {
    flushSync(() => setDialog(null));
    endingId.current = null;
    const elements = focusIds.map((id) => document.getElementById(id));
    (elements.find((element) => element?.checkVisibility()) ?? heading.current)?.focus();
  }

  return {
    ...{
      list,
      rows,
      view,
      changeView,
      writer,
      paused,
      setPaused,
      lines,
      setLines,
      newKeyIds,
      setNewKeyIds,
      departing,
      heading,
    },
    ...{ menu, setMenu, dialog, setDialog, openDetails, openRevoke, close, onChanged, endingId, shownActive },
  };
}

/**
 * Reads on without being asked: where the view needs all keys, and where a page came without any,
 * as that of a search may.
 */
function useFurtherPages(list: ReturnType<typeof useKeyList>, view: KeyView): void {
  const { data, hasNextPage, isFetching, isError, isPlaceholderData, fetchNextPage } = list;
  const isEmpty = data?.pages.at(-1)?.keys === undefined;
  const wantsMore = isEmpty || needsAllPages(view, keyCounts(data));
  const readsOn = hasNextPage && !isFetching && !isError && !isPlaceholderData && wantsMore;
  useEffect(() => {
    if (readsOn) void fetchNextPage();
  }, [readsOn, fetchNextPage]);
}

export type KeysPageState = ReturnType<typeof useKeysPage>;

/** The dialog, which shows the key as it is now. `news` when it has ended elsewhere. */
function withKey(dialog: KeysDialog | null, key: Key, news: boolean): KeysDialog | null {
  if (dialog === null || dialog.kind === "create" || dialog.key.id !== key.id) return dialog;
  if (dialog.kind !== "revoke") return { ...dialog, key };
  return news ? { ...dialog, endedElsewhere: key } : dialog;
}
