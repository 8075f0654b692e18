import { useState } from "react";
import type { Key } from "#gen/keyrun/v1/key_pb.ts";
import { useServices } from "../../services.tsx";
import type { KeyListWriter } from "../use-key-list.ts";
import { type Creation, createKey } from "./create-key.ts";
import { LabelForm } from "./label-form.tsx";
import { LostKey } from "./lost-key.tsx";
import { SaveKey } from "./save-key.tsx";

interface CreateKeyDialogProps {
  readonly teamId: string;
  readonly writer: KeyListWriter;
  /**
   * Called with the id of the key that this dialog starts to revoke, and with null if that failed.
   */
  onRevoking(keyId: string | null): void;
  /** Called when the dialog closes. `created` is the key that it made, or null. */
  onClose(created: Key | null): void;
}

type Step = { readonly kind: "label" } | { readonly kind: "pending" } | Creation;

/**
 * Creates a key, from its label to its value. The value is only in this component's state, so it is
 * gone when the dialog closes.
 */
export function CreateKeyDialog({ teamId, writer, onRevoking, onClose }: CreateKeyDialogProps) {
  const { keys } = useServices();
  const [step, setStep] = useState<Step>({ kind: "label" });
  const [label, setLabel] = useState("");
  const [requestId, setRequestId] = useState(newRequestId);

  async function create() {
    setStep({ kind: "pending" });
    const creation = await createKey(keys, { teamId, label: label.trim(), requestId });
    if (creation.kind === "created") writer.created(creation.key);
    else void writer.refresh();
    setStep(creation);
  }

  if (step.kind === "created") {
    return <SaveKey apiKey={step.key} value={step.value} teamId={teamId} onDone={() => onClose(step.key)} />;
  }
  if (step.kind === "lost") {
    return (
      <LostKey
        teamId={teamId}
        keyId={step.keyId}
        writer={writer}
        onPending={(pending) => onRevoking(pending ? step.keyId : null)}
        onRevoked={() => {
          setRequestId(newRequestId);
          setStep({ kind: "label" });
        }}
        onClose={() => onClose(null)}
      />
    );
  }
  return (
    <LabelForm
      label={label}
      pending={step.kind === "pending"}
      failure={step.kind === "failed" ? step.failure : null}
      onChange={setLabel}
      onSubmit={create}
      onCancel={() => onClose(null)}
    />
  );
}

function newRequestId(): string {
  return crypto.randomUUID();
}
