import { type SubmitEvent, useRef, useState } from "react";
import { type Failure, failureOf } from "../../api/failure.ts";
import type { Key } from "../../api/messages.ts";
import { rpcs } from "../../api/rpcs.ts";
import { Modal } from "../../controls/modal.tsx";
import { useServices } from "../../services.tsx";
import { dayInWords } from "../../time/day-format.ts";
import { AttemptFailure } from "../form/attempt-failure.tsx";
import { type Expiry, expiryChoices, expiryMs, expiryProblem, neverExpires } from "../form/expiry.ts";
import { ExpiryField } from "../form/expiry-field.tsx";
import { LabelField } from "../form/label-field.tsx";
import { isTooLong, labelProblem } from "../form/label-problem.ts";
import { keyInWords } from "../key-words.ts";
import type { KeyListWriter } from "../use-key-list.ts";

interface EditKeyDialogProps {
  readonly apiKey: Key;
  readonly writer: KeyListWriter;
  /** Called when the dialog closes. `changed` is the key as it is now, or null. */
  onClose(changed: Key | null): void;
}

/** Changes a key's label, or brings its expiry forward. Nothing else of a key can change. */
export function EditKeyDialog({ apiKey, writer, onClose }: EditKeyDialogProps) {
  const { caller, ticker } = useServices();
  const labelField = useRef<HTMLInputElement>(null);
  const dayField = useRef<HTMLInputElement>(null);
  const [label, setLabel] = useState(apiKey.label ?? "");
  /** The label when the dialog opened; null once another one was sent, which may have arrived. */
  const unchangedLabel = useRef<string | null>(label);
  const [expiry, setExpiry] = useState<Expiry>(neverExpires);
  const [checked, setChecked] = useState(false);
  const [state, setState] = useState<"editing" | "pending" | Failure>("editing");
  const pending = state === "pending";
  const beforeMs = apiKey.expireTime === undefined ? undefined : Date.parse(apiKey.expireTime);
  const problems = {
    label: labelProblem(label),
    expiry: expiryProblem(expiry, ticker.unixMs(), beforeMs),
  };

  async function save(event: SubmitEvent) {
    event.preventDefault();
    if (pending) return;
    setChecked(true);
    if (problems.label !== null) return labelField.current?.focus();
    if (problems.expiry !== null) return dayField.current?.focus();
    const ms = expiryMs(expiry, ticker.readMs());
    const fields = {
      // Not by the key's label now: someone else may have changed it meanwhile.
      ...(label.trim() !== unchangedLabel.current && { label: label.trim() }),
      ...(ms !== null && { expireTime: new Date(ms).toISOString() }),
    };
    const updateMask = Object.keys(fields).join();
    if (updateMask === "") return onClose(null);
    setState("pending");
    if (fields.label !== undefined) unchangedLabel.current = null;
    try {
      const { teamId, id: keyId } = apiKey;
      const { key } = await caller.call(rpcs.updateKey, { teamId, keyId, ...fields, updateMask });
      if (key !== undefined) writer.changed(key);
      onClose(key ?? null);
    } catch (thrown) {
      setState(failureOf(thrown));
    }
  }
  const cancel = () => {
    if (!pending) onClose(null);
  };

  return (
    <Modal id="edit-key" title={`Edit ${keyInWords(apiKey)}`} firstFocus={labelField} onCloseRequest={cancel}>
      <form onSubmit={save} noValidate>
        <p id="edit-key-text" className="muted">
          The label can change at any time. An expiry can only come sooner.
        </p>
        <LabelField
          ref={labelField}
          label={label}
          readOnly={pending}
          problem={checked || isTooLong(label) ? problems.label : null}
          onChange={setLabel}
        />
        <ExpiryField
          ref={dayField}
          expiry={expiry}
          choices={soonerChoices(beforeMs, ticker.unixMs())}
          readOnly={pending}
          problem={checked ? problems.expiry : null}
          neverHint={
            beforeMs === undefined
              ? "The key works until someone revokes it."
              : `The key works until ${dayInWords(beforeMs)}.`
          }
          onChange={setExpiry}
        />
        {typeof state === "object" && (
          <AttemptFailure failure={state} what="change the key" safe="Trying again is safe." />
        )}
        <div className="dialog-buttons">
          <button type="button" className="button" aria-disabled={pending} onClick={cancel}>
            Cancel
          </button>
          <button type="submit" className="button button-primary" aria-disabled={pending}>
            {pending ? "Saving…" : "Save"}
          </button>
        </div>
      </form>
    </Modal>
  );
}

/** The ends that are sooner than the present one. The first choice leaves that as it is. */
function soonerChoices(beforeMs: number | undefined, nowMs: number) {
  if (beforeMs === undefined) return expiryChoices;
  const spans = [
    { choice: "1", words: "In 1 hour" },
    { choice: "24", words: "In 24 hours" },
    { choice: "168", words: "In 7 days" },
    ...expiryChoices.slice(1),
  ];
  const sooner = spans.filter(
    (span) => (expiryMs({ choice: span.choice, date: "" }, nowMs) ?? nowMs) < beforeMs,
  );
  return [{ choice: "never", words: "As it is now" }, ...sooner];
}
