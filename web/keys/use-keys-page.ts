import { useEffect, useRef, useState } from "react";
import { flushSync } from "react-dom";
import type { Key } from "#gen/keyrun/v1/key_pb.ts";
import { useServices } from "../services.tsx";
import { isActive, keysOf, visibleKeys } from "./key-pages.ts";
import { detailsButtonId, revokeButtonId } from "./key-row.tsx";
import { arranged, firstView, isNarrowed, type KeyView } from "./key-view.ts";
import { keyAsSubject } from "./key-words.ts";
import { useDepartingKeys } from "./use-departing-keys.ts";
import { useKeyList, useKeyListWriter } from "./use-key-list.ts";
import { useLiveKeys } from "./use-live-keys.ts";

/** The dialog that is open on the page. */
export type KeysDialog =
  | { readonly kind: "create" }
  | { readonly kind: "details"; readonly key: Key }
  | {
      readonly kind: "revoke";
      readonly key: Key;
      /** The keys of the rows below, for the focus when this row has gone. */
      readonly below: readonly Key[];
      /** The revoked key, if someone else revoked it meanwhile. */
      readonly revokedElsewhere: Key | null;
    };

/**
 * The state and the actions of the page of a team's keys: its live list, and the one open dialog.
 */
export function useKeysPage(teamId: string) {
  const { status, ticker } = useServices();
  const [view, setView] = useState(firstView);
  const [newKeyIds, setNewKeyIds] = useState<ReadonlySet<string>>(new Set());
  const [dialog, setDialog] = useState<KeysDialog | null>(null);
  const writer = useKeyListWriter(teamId);
  const { departing, depart, forget } = useDepartingKeys();
  const heading = useRef<HTMLHeadingElement>(null);
  const createButton = useRef<HTMLButtonElement>(null);
  /** The key that this page is revoking. Its revocation is not announced as someone else's. */
  const revokingId = useRef<string | null>(null);
  /**
   * The keys that this page showed as active. Their revocation is announced even if the list is
   * read without them before the stream reports it.
   */
  const shownActive = useRef(new Set<string>());

  const { paused } = useLiveKeys(teamId, {
    onOpened: () => void writer.refresh(),
    onRefused: () => void writer.refresh(),
    onCreated: writer.created,
    onRevoked(key) {
      const news = shownActive.current.delete(key.id) && revokingId.current !== key.id;
      // A narrowed view may not hold the key. Then no row may appear only to say that it goes.
      const inView = !isNarrowed(view) || rows.some((one) => one.id === key.id);
      writer.revoked(key);
      setDialog((open) => withRevoked(open, key, news));
      if (!news) return;
      if (inView) depart(key);
      status.say(`${keyAsSubject(key)} was revoked by ${key.revokedBy}`);
    },
  });
  const list = useKeyList({ teamId, showRevoked: view.showRevoked, query: view.query, paused });
  // The page can only sort what it has loaded.
  const sort = list.hasNextPage ? firstView.sort : view.sort;
  const rows = list.data
    ? arranged(visibleKeys(list.data, view.showRevoked, departing), { ...view, sort }, ticker.unixMs())
    : [];
  useEffect(() => {
    if (list.data === undefined) return;
    for (const key of keysOf(list.data).filter(isActive)) shownActive.current.add(key.id);
  }, [list.data]);

  function changeView(change: Partial<KeyView>) {
    setView((before) => ({ ...before, ...change }));
    forget();
  }
  function openDetails(key: Key) {
    setDialog({ kind: "details", key });
  }
  function closeDetails({ key }: { key: Key }) {
    flushSync(() => setDialog(null));
    (document.getElementById(detailsButtonId(key.id)) ?? heading.current)?.focus();
  }
  function openRevoke(key: Key) {
    const below = rows.slice(rows.findIndex((one) => one.id === key.id) + 1);
    setDialog({ kind: "revoke", key, below, revokedElsewhere: null });
  }
  function closeCreate(created: Key | null) {
    flushSync(() => setDialog(null));
    revokingId.current = null;
    createButton.current?.focus();
    if (created === null) return;
    setNewKeyIds((before) => new Set(before).add(created.id));
    // A narrowed view would hide the new key.
    if (isNarrowed(view)) changeView({ query: "", unusedOnly: false });
    status.say(`${keyAsSubject(created)} created`, { shown: true });
  }
  function closeRevoke(
    closed: KeysDialog & { kind: "revoke" },
    outcome: "kept" | "revoked" | "found-revoked",
  ) {
    flushSync(() => setDialog(null));
    revokingId.current = null;
    if (outcome !== "kept") shownActive.current.delete(closed.key.id);
    const next = outcome === "kept" ? [closed.key] : closed.below;
    const buttons = next.map((key) => document.getElementById(revokeButtonId(key.id)));
    (buttons.find((button) => button !== null) ?? heading.current)?.focus();
    if (outcome === "revoked") status.say(`${keyAsSubject(closed.key)} revoked`, { shown: true });
  }

  return {
    ...{ list, rows, view, changeView, writer, paused, newKeyIds, departing, heading, createButton },
    ...{ dialog, setDialog, openDetails, closeDetails, openRevoke, closeCreate, closeRevoke, revokingId },
  };
}

/** The dialog, which shows the key as it is now. `news` when someone else revoked it. */
function withRevoked(dialog: KeysDialog | null, key: Key, news: boolean): KeysDialog | null {
  if (dialog === null || dialog.kind === "create" || dialog.key.id !== key.id) return dialog;
  if (dialog.kind === "details") return { ...dialog, key };
  return news ? { ...dialog, revokedElsewhere: key } : dialog;
}
