import { useRef, useState } from "react";
import { type Failure, failureOf } from "../../api/failure.ts";
import type { Key } from "../../api/messages.ts";
import { rpcs } from "../../api/rpcs.ts";
import { DialogFailure } from "../../controls/dialog-failure.tsx";
import { Modal } from "../../controls/modal.tsx";
import { WholeLabel } from "../../controls/whole-label.tsx";
import { useServices } from "../../services.tsx";
import { keyAsSubject, keyInWords } from "../key-words.ts";
import type { KeyListWriter } from "../use-key-list.ts";
import { AlreadyEnded } from "./already-ended.tsx";
import { RevokeConsequences } from "./revoke-consequences.tsx";

interface RevokeKeyDialogProps {
  readonly apiKey: Key;
  readonly writer: KeyListWriter;
  /** The person's own e-mail address. It shows whether someone else had revoked the key before. */
  readonly email: string;
  /** The key as it has ended, if that was not done here while the dialog was open. */
  readonly endedElsewhere: Key | null;
  /** Called with true when the revocation starts, and with false if it failed. */
  onPending(pending: boolean): void;
  /** Called when the dialog closes: the key was kept, revoked here, or found revoked. */
  onClose(outcome: "kept" | "revoked" | "found-revoked"): void;
}

/** Confirms a revocation. Nothing has to be typed: in an incident it must be fast. */
export function RevokeKeyDialog(props: RevokeKeyDialogProps) {
  const { apiKey, writer, email, endedElsewhere, onPending, onClose } = props;
  const { caller } = useServices();
  const [state, setState] = useState<State>("asking");
  const cancelButton = useRef<HTMLButtonElement>(null);
  const before = endedElsewhere ?? (isKey(state) ? state : null);

  async function revoke() {
    if (state === "pending") return;
    setState("pending");
    onPending(true);
    try {
      const { key } = await caller.call(rpcs.revokeKey, { teamId: apiKey.teamId, keyId: apiKey.id });
      if (key !== undefined) writer.changed(key);
      if (key === undefined || key.revokedBy === email) onClose("revoked");
      else setState(key);
    } catch (thrown) {
      onPending(false);
      setState(failureOf(thrown));
    }
  }
  const cancel = () => {
    if (state !== "pending") onClose(before === null ? "kept" : "found-revoked");
  };

  return (
    <Modal
      id="revoke-key"
      role="alertdialog"
      title={
        before === null
          ? `Revoke ${keyInWords(apiKey)}?`
          : `${keyAsSubject(apiKey)} ${before.state === "KEY_STATE_EXPIRED" ? "has expired" : "is revoked"}`
      }
      firstFocus={cancelButton}
      onCloseRequest={cancel}
    >
      <WholeLabel label={apiKey.label} />
      {before === null ? <RevokeConsequences apiKey={apiKey} /> : <AlreadyEnded apiKey={before} />}
      {before === null && isFailure(state) && (
        <DialogFailure failure={state}>Couldn’t revoke the key. {state.message}</DialogFailure>
      )}
      <div className="dialog-buttons">
        <button
          ref={cancelButton}
          type="button"
          className="button"
          aria-disabled={state === "pending"}
          onClick={cancel}
        >
          {before === null ? "Cancel" : "Close"}
        </button>
        {before === null && (
          <button
            type="button"
            className="button button-danger"
            aria-disabled={state === "pending"}
            onClick={revoke}
          >
            {state === "pending" ? "Revoking…" : isFailure(state) ? "Try again" : "Revoke key"}
          </button>
        )}
      </div>
    </Modal>
  );
}

type State = "asking" | "pending" | Failure | Key;

function isKey(state: State): state is Key {
  return typeof state === "object" && "id" in state;
}

function isFailure(state: State): state is Failure {
  return typeof state === "object" && !isKey(state);
}
