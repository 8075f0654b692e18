import { type SubmitEvent, useRef, useState } from "react";
import type { Failure } from "../../api/failure.ts";
import { rpcs } from "../../api/rpcs.ts";
import { Modal } from "../../controls/modal.tsx";
import { useServices } from "../../services.tsx";
import { useRpc } from "../../use-rpc.ts";
import { AttemptFailure } from "../form/attempt-failure.tsx";
import { expiryChoices } from "../form/expiry.ts";
import { ExpiryField } from "../form/expiry-field.tsx";
import { draftProblems, type KeyDraft, noProblems } from "../form/key-draft.ts";
import { LabelField } from "../form/label-field.tsx";
import { isTooLong } from "../form/label-problem.ts";
import { RestrictFields } from "../form/restrict-fields.tsx";

interface KeyFormProps {
  readonly teamId: string;
  readonly draft: KeyDraft;
  readonly pending: boolean;
  /** Why the last attempt made no key; null before the first. */
  readonly failure: Failure | null;
  onChange(change: Partial<KeyDraft>): void;
  onSubmit(): void;
  onCancel(): void;
}

/**
 * The first step of creating a key: what it is for, how long it works, and what it may not do.
 * Nothing closes the dialog while the call is pending.
 */
export function KeyForm(props: KeyFormProps) {
  const { teamId, draft, pending, failure, onChange, onSubmit, onCancel } = props;
  const { ticker } = useServices();
  const labelField = useRef<HTMLInputElement>(null);
  const dayField = useRef<HTMLInputElement>(null);
  const rateField = useRef<HTMLInputElement>(null);
  const quotaField = useRef<HTMLInputElement>(null);
  const [checked, setChecked] = useState(false);
  const limit = useRpc(rpcs.getRateLimit, { teamId }).data?.rateLimit?.limit;
  const problems = draftProblems(draft, ticker.unixMs(), limit);
  const told = checked ? problems : { ...noProblems, label: isTooLong(draft.label) ? problems.label : null };

  function submit(event: SubmitEvent) {
    event.preventDefault();
    if (pending) return;
    setChecked(true);
    if (problems.label !== null) labelField.current?.focus();
    else if (problems.expiry !== null) dayField.current?.focus();
    else if (problems.requestsPerMinute !== null) showField(rateField.current);
    else if (problems.quota !== null) showField(quotaField.current);
    else onSubmit();
  }
  const cancel = () => {
    if (!pending) onCancel();
  };

  return (
    <Modal id="create-key" title="Create new secret key" firstFocus={labelField} onCloseRequest={cancel}>
      <form onSubmit={submit} noValidate>
        <p id="create-key-text" className="muted">
          The key shares the team’s limit, and can run every app of the team unless you restrict it.
        </p>
        <LabelField
          ref={labelField}
          label={draft.label}
          readOnly={pending}
          problem={told.label}
          onChange={(label) => onChange({ label })}
        />
        <ExpiryField
          ref={dayField}
          expiry={draft.expiry}
          choices={expiryChoices}
          readOnly={pending}
          problem={told.expiry}
          neverHint="The key works until someone revokes it."
          onChange={(expiry) => onChange({ expiry })}
        />
        <RestrictFields
          {...{ teamId, draft, limit, rateField, quotaField, onChange }}
          readOnly={pending}
          problem={told.requestsPerMinute}
          quotaProblem={told.quota}
        />
        {failure !== null && (
          <AttemptFailure
            failure={failure}
            what="create the key"
            safe="Trying again is safe: it never makes a second key."
          />
        )}
        <div className="dialog-buttons">
          <button type="button" className="button" aria-disabled={pending} onClick={cancel}>
            Cancel
          </button>
          <button type="submit" className="button button-primary" aria-disabled={pending}>
            {pending ? "Creating…" : "Create key"}
          </button>
        </div>
      </form>
    </Modal>
  );
}

/** Gives the focus to a field, which may be in a part of the form that is closed. */
function showField(field: HTMLInputElement | null) {
  const part = field?.closest("details");
  if (part) part.open = true;
  field?.focus();
}
