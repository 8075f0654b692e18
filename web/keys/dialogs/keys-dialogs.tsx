import type { Key } from "../../api/messages.ts";
import { useServices } from "../../services.tsx";
import { CreateKeyDialog } from "../create/create-key-dialog.tsx";
import { KeyDetailsDialog } from "../details/key-details-dialog.tsx";
import { EditKeyDialog } from "../edit/edit-key-dialog.tsx";
import { isActive, keysOf } from "../key-pages.ts";
import { detailsButtonId, menuButtonId, revokeButtonId } from "../key-row.tsx";
import { isNarrowed } from "../key-view.ts";
import { keyAsSubject } from "../key-words.ts";
import { RevokeKeyDialog } from "../revoke/revoke-key-dialog.tsx";
import { RotateKeyDialog } from "../rotate/rotate-key-dialog.tsx";
import type { KeysDialog, KeysPageState } from "../use-keys-page.ts";

interface KeysDialogsProps {
  readonly page: KeysPageState;
  readonly teamId: string;
  /** The person's own e-mail address. */
  readonly email: string;
  readonly dialog: KeysDialog;
}

/** The dialogs of the page of a team's keys, and where each of them leads. */
export function KeysDialogs({ page, teamId, email, dialog }: KeysDialogsProps) {
  const { status } = useServices();
  const { writer, endingId } = page;
  const onEnding = (keyId: string | null) => {
    endingId.current = keyId;
  };
  function showNew(created: Key, done: "created" | "rotated" = "created") {
    page.setNewKeyIds((before) => new Set(before).add(created.id));
    // A narrowed view would hide the new key.
    if (isNarrowed(page.view) || page.view.past)
      page.changeView({ past: false, query: "", unusedOnly: false });
    status.say(`${keyAsSubject(created)} ${done}`, { shown: true });
  }

  if (dialog.kind === "create") {
    return (
      <CreateKeyDialog
        {...{ teamId, writer }}
        onRevoking={onEnding}
        onClose={(created) => {
          page.close(dialog.opener);
          if (created !== null) showNew(created);
        }}
      />
    );
  }
  const { key } = dialog;
  if (dialog.kind === "revoke") {
    return (
      <RevokeKeyDialog
        {...{ apiKey: key, writer, email, endedElsewhere: dialog.endedElsewhere }}
        onPending={(pending) => onEnding(pending ? key.id : null)}
        onClose={(outcome) => {
          if (outcome !== "kept") page.shownActive.current.delete(key.id);
          const next = outcome === "kept" ? [key] : dialog.below;
          page.close(...next.flatMap(({ id }) => [revokeButtonId(id), menuButtonId(id)]));
          if (outcome === "revoked") status.say(`${keyAsSubject(key)} revoked`, { shown: true });
        }}
      />
    );
  }
  if (dialog.kind === "details") {
    return (
      <KeyDetailsDialog
        key={key.id}
        apiKey={key}
        known={page.list.data ? keysOf(page.list.data) : []}
        onEdit={() => page.setDialog({ ...dialog, kind: "edit", fromDetails: true })}
        onRotate={() => page.setDialog({ ...dialog, kind: "rotate", fromDetails: true })}
        onRevoke={() => page.openRevoke(key)}
        onOther={(other) => page.setDialog({ ...dialog, key: other })}
        onClose={() => page.close(dialog.opener)}
      />
    );
  }
  const { fromDetails, opener } = dialog;
  function goBack(key: Key) {
    if (fromDetails) page.setDialog({ kind: "details", key, opener });
    else page.close(opener);
  }
  if (dialog.kind === "edit") {
    return (
      <EditKeyDialog
        {...{ apiKey: key, writer }}
        onClose={(changed) => {
          goBack(changed ?? key);
          if (changed !== null) status.say(`${keyAsSubject(changed)} saved`, { shown: true });
        }}
      />
    );
  }
  const before = page.list.data && keysOf(page.list.data).find(({ id }) => id === key.replacesKeyId);
  return (
    <RotateKeyDialog
      {...{ apiKey: key, writer, onEnding }}
      mustEndNow={before !== undefined && isActive(before)}
      onClose={(created) => {
        if (created === null) {
          onEnding(null);
          goBack(key);
          return;
        }
        page.shownActive.current.delete(key.id);
        page.close(detailsButtonId(created.id));
        showNew(created, "rotated");
      }}
    />
  );
}
