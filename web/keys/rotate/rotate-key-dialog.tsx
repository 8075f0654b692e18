import { useState } from "react";
import type { Key } from "../../api/messages.ts";
import { rpcs } from "../../api/rpcs.ts";
import { useServices } from "../../services.tsx";
import { type Creation, createKey } from "../create/create-key.ts";
import { LostKey } from "../create/lost-key.tsx";
import { SaveKey } from "../create/save-key.tsx";
import { useLeaveGuard } from "../create/use-leave-guard.ts";
import type { KeyListWriter } from "../use-key-list.ts";
import { OldKeyNote } from "./old-key-note.tsx";
import { usualOverlapS } from "./overlap.ts";
import { RotateForm } from "./rotate-form.tsx";

interface RotateKeyDialogProps {
  readonly apiKey: Key;
  /** True when the key that this one replaces still works. */
  readonly mustEndNow: boolean;
  readonly writer: KeyListWriter;
  /** Called with the id of a key that this dialog starts to end, and with null if that failed. */
  onEnding(keyId: string | null): void;
  /** Called when the dialog closes. `created` is the key that it made, or null. */
  onClose(created: Key | null): void;
}

type Step = { readonly kind: "form" } | { readonly kind: "pending" } | Creation;

/**
 * Replaces a key, from the overlap to the new key's value. The value is only in this component's
 * state, so it is gone when the dialog closes.
 */
export function RotateKeyDialog(props: RotateKeyDialogProps) {
  const { apiKey, mustEndNow, writer, onEnding, onClose } = props;
  const { caller } = useServices();
  const [step, setStep] = useState<Step>({ kind: "form" });
  const [overlapS, setOverlapS] = useState<number>(mustEndNow ? 0 : usualOverlapS);
  const [requestId] = useState(() => crypto.randomUUID());
  const [replaced, setReplaced] = useState<Key>();
  const { teamId } = apiKey;
  // The answer holds the value, and the old key may be revoked by then.
  useLeaveGuard(step.kind === "pending");

  async function rotate() {
    setStep({ kind: "pending" });
    onEnding(apiKey.id);
    const creation = await createKey(
      {
        async createKey(request) {
          const { key, value, replacedKey } = await caller.call(rpcs.rotateKey, request);
          setReplaced(replacedKey);
          if (replacedKey !== undefined) writer.changed(replacedKey);
          return { key, value };
        },
        listKeys: (request) => caller.call(rpcs.listKeys, request),
      },
      { teamId, requestId, keyId: apiKey.id, overlap: `${overlapS}s` },
    );
    if (creation.kind === "created") writer.created(creation.key);
    if (creation.kind === "failed") onEnding(null);
    void writer.refresh();
    setStep(creation);
  }

  if (step.kind === "created") {
    return (
      <SaveKey apiKey={step.key} value={step.value} teamId={teamId} onDone={() => onClose(step.key)}>
        {replaced && <OldKeyNote apiKey={replaced} />}
      </SaveKey>
    );
  }
  if (step.kind === "lost") {
    return (
      <LostKey
        {...{ teamId, writer }}
        keyId={step.keyId}
        words="The new key was made but its secret did not reach this browser. Revoke it and create a new key. The old one can’t be rotated again."
        onPending={(pending) => onEnding(pending ? step.keyId : null)}
        onRevoked={() => onClose(null)}
        onClose={() => onClose(null)}
      />
    );
  }
  return (
    <RotateForm
      {...{ apiKey, mustEndNow, overlapS }}
      pending={step.kind === "pending"}
      failure={step.kind === "failed" ? step.failure : null}
      onChange={setOverlapS}
      onSubmit={rotate}
      onCancel={() => onClose(null)}
    />
  );
}
