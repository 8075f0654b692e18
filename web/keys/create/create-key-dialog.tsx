import { useState } from "react";
import type { Key } from "../../api/messages.ts";
import { rpcs } from "../../api/rpcs.ts";
import { useServices } from "../../services.tsx";
import { draftFields, emptyDraft } from "../form/key-draft.ts";
import type { KeyListWriter } from "../use-key-list.ts";
import { type Creation, createKey } from "./create-key.ts";
import { KeyForm } from "./key-form.tsx";
import { LostKey } from "./lost-key.tsx";
import { SaveKey } from "./save-key.tsx";
import { useLeaveGuard } from "./use-leave-guard.ts";

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

type Step = { readonly kind: "form" } | { readonly kind: "pending" } | Creation;

/**
 * Creates a key, from its label to its value. The value is only in this component's state, so it is
 * gone when the dialog closes.
 */
export function CreateKeyDialog({ teamId, writer, onRevoking, onClose }: CreateKeyDialogProps) {
  const { caller, ticker } = useServices();
  const [step, setStep] = useState<Step>({ kind: "form" });
  const [draft, setDraft] = useState(emptyDraft);
  const [requestId, setRequestId] = useState(newRequestId);
  // The answer holds the value, and nobody would see it elsewhere.
  useLeaveGuard(step.kind === "pending");

  async function create() {
    setStep({ kind: "pending" });
    const creation = await createKey(
      {
        createKey: (request) => caller.call(rpcs.createKey, request),
        listKeys: (request) => caller.call(rpcs.listKeys, request),
      },
      { teamId, requestId, ...draftFields(draft, ticker.readMs()) },
    );
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
        words="A key was created but its secret did not reach this browser. Revoke it and create a new one."
        onPending={(pending) => onRevoking(pending ? step.keyId : null)}
        onRevoked={() => {
          setRequestId(newRequestId);
          setStep({ kind: "form" });
        }}
        onClose={() => onClose(null)}
      />
    );
  }
  return (
    <KeyForm
      teamId={teamId}
      draft={draft}
      pending={step.kind === "pending"}
      failure={step.kind === "failed" ? step.failure : null}
      onChange={(change) => setDraft((before) => ({ ...before, ...change }))}
      onSubmit={create}
      onCancel={() => onClose(null)}
    />
  );
}

function newRequestId(): string {
  return crypto.randomUUID();
}
