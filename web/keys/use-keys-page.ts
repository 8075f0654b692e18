import { useEffect, useRef, useState } from "react";
import { flushSync } from "react-dom";
import type { Key } from "#gen/keyrun/v1/key_pb.ts";
import { useServices } from "../services.tsx";
import { isActive, keysOf } from "./key-pages.ts";
import { revokeButtonId } from "./key-row.tsx";
import { keyAsSubject } from "./key-words.ts";
import { useDepartingKeys } from "./use-departing-keys.ts";
import { useKeyList, useKeyListWriter } from "./use-key-list.ts";
import { useLiveKeys } from "./use-live-keys.ts";

/** The dialog that is open on the page. */
export type KeysDialog =
  | { readonly kind: "create" }
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
  const { status } = useServices();
  const [showRevoked, setShowRevoked] = useState(false);
  const [newKeyIds, setNewKeyIds] = useState<ReadonlySet<string>>(new Set());
  const [dialog, setDialog] = useState<KeysDialog | null>(null);
  const writer = useKeyListWriter(teamId);
  const { departing, depart } = useDepartingKeys();
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
      writer.revoked(key);
      if (!news) return;
      depart(key);
      status.say(`${keyAsSubject(key)} was revoked by ${key.revokedBy}`);
      setDialog((open) => withRevokedElsewhere(open, key));
    },
  });
  const list = useKeyList({ teamId, showRevoked, paused });
  useEffect(() => {
    if (list.data === undefined) return;
    for (const key of keysOf(list.data).filter(isActive)) shownActive.current.add(key.id);
  }, [list.data]);

  function openRevoke(key: Key) {
    const keys = list.data === undefined ? [] : keysOf(list.data);
    const below = keys.slice(keys.findIndex((one) => one.id === key.id) + 1);
    setDialog({ kind: "revoke", key, below, revokedElsewhere: null });
  }
  function closeCreate(created: Key | null) {
    flushSync(() => setDialog(null));
    revokingId.current = null;
    createButton.current?.focus();
    if (created === null) return;
    setNewKeyIds((before) => new Set(before).add(created.id));
    status.say(`${keyAsSubject(created)} created`, { shown: true });
  }
  function closeRevoke(
    closed: KeysDialog & { kind: "revoke" },
    outcome: "kept" | "revoked" | "found-revoked",
  ) {
    flushSync(() => setDialog(null));
    revokingId.current = null;
    if (outcome !== "kept") shownActive.current.delete(closed.key.id);
    const rows = outcome === "kept" ? [closed.key] : closed.below;
    const buttons = rows.map((key) => document.getElementById(revokeButtonId(key.id)));
    (buttons.find((button) => button !== null) ?? heading.current)?.focus();
    if (outcome === "revoked") status.say(`${keyAsSubject(closed.key)} revoked`, { shown: true });
  }

  return {
    ...{ list, writer, paused, showRevoked, setShowRevoked, newKeyIds, departing, heading, createButton },
    ...{ dialog, setDialog, openRevoke, closeCreate, closeRevoke, revokingId },
  };
}

function withRevokedElsewhere(dialog: KeysDialog | null, key: Key): KeysDialog | null {
  return dialog?.kind === "revoke" && dialog.key.id === key.id
    ? { ...dialog, revokedElsewhere: key }
    : dialog;
}
