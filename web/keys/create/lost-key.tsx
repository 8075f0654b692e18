import { useRef, useState } from "react";
import { type Failure, failureOf } from "../../api/failure.ts";
import { rpcs } from "../../api/rpcs.ts";
import { DialogFailure } from "../../controls/dialog-failure.tsx";
import { Modal } from "../../controls/modal.tsx";
import { useServices } from "../../services.tsx";
import type { KeyListWriter } from "../use-key-list.ts";

interface LostKeyProps {
  readonly teamId: string;
  readonly keyId: string;
  readonly writer: KeyListWriter;
  /** What happened, and what helps. */
  readonly words: string;
  /** Called with true when the revocation starts, and with false if it failed. */
  onPending(pending: boolean): void;
  /** Called when the key is revoked, so that a new one can be made. */
  onRevoked(): void;
  onClose(): void;
}

/** Offers to revoke a key that exists but whose value never arrived, and never will. */
export function LostKey({ teamId, keyId, writer, words, onPending, onRevoked, onClose }: LostKeyProps) {
  const { caller } = useServices();
  const [state, setState] = useState<"asking" | "pending" | Failure>("asking");
  const revokeButton = useRef<HTMLButtonElement>(null);

  async function revoke() {
    if (state === "pending") return;
    setState("pending");
    onPending(true);
    try {
      const { key } = await caller.call(rpcs.revokeKey, { teamId, keyId });
      if (key !== undefined) writer.changed(key);
      onRevoked();
    } catch (thrown) {
      onPending(false);
      setState(failureOf(thrown));
    }
  }

  return (
    <Modal
      id="lost-key"
      title="The secret was lost on its way"
      firstFocus={revokeButton}
      onCloseRequest={onClose}
    >
      <p id="lost-key-text">{words}</p>
      {typeof state === "object" && <DialogFailure failure={state}>{state.message}</DialogFailure>}
      <div className="dialog-buttons">
        <button type="button" className="button" onClick={onClose}>
          Close
        </button>
        <button
          ref={revokeButton}
          type="button"
          className="button button-danger"
          aria-disabled={state === "pending"}
          onClick={revoke}
        >
          {state === "pending" ? "Revoking…" : typeof state === "object" ? "Try again" : "Revoke"}
        </button>
      </div>
    </Modal>
  );
}
