import { type SubmitEvent, useRef, useState } from "react";
import type { Failure } from "../../api/failure.ts";
import { bounds } from "../../bounds.ts";
import { FailureNote } from "../../controls/failure-note.tsx";
import { Modal } from "../../controls/modal.tsx";
import { labelLength, labelProblem } from "./label-problem.ts";

interface LabelFormProps {
  readonly label: string;
  readonly pending: boolean;
  /** Why the last attempt made no key; null before the first. */
  readonly failure: Failure | null;
  onChange(label: string): void;
  onSubmit(): void;
  onCancel(): void;
}

/**
 * The first step of creating a key: its label. Nothing closes the dialog while the call is pending.
 */
export function LabelForm({ label, pending, failure, onChange, onSubmit, onCancel }: LabelFormProps) {
  const field = useRef<HTMLInputElement>(null);
  const [checked, setChecked] = useState(false);
  const length = labelLength(label);
  const tooLong = length > bounds.labelCodePointsMax;
  const problem = checked || tooLong ? labelProblem(label) : null;

  function submit(event: SubmitEvent) {
    event.preventDefault();
    if (pending) return;
    setChecked(true);
    if (labelProblem(label) === null) onSubmit();
    else field.current?.focus();
  }
  const cancel = () => {
    if (!pending) onCancel();
  };

  return (
    <Modal id="create-key" title="Create new secret key" firstFocus={field} onCloseRequest={cancel}>
      <form onSubmit={submit} noValidate>
        <p id="create-key-text" className="muted">
          The key can run every app of the team, and shares the team’s limit.
        </p>
        <div className="field">
          <label htmlFor="key-label">Label (optional)</label>
          <input
            ref={field}
            id="key-label"
            type="text"
            value={label}
            readOnly={pending}
            autoComplete="off"
            data-1p-ignore
            data-lpignore="true"
            aria-invalid={problem !== null}
            aria-describedby={problem === null ? "key-label-hint" : "key-label-problem key-label-hint"}
            onChange={(event) => onChange(event.currentTarget.value)}
          />
          <LabelHints length={length} problem={problem} />
        </div>
        {failure !== null && <CreateFailure failure={failure} />}
        <div className="dialog-buttons">
          <button type="button" className="button" aria-disabled={pending} onClick={cancel}>
            Cancel
          </button>
          <button type="submit" className="button button-primary" aria-disabled={pending}>
            {pending ? "Creating…" : "Create secret key"}
          </button>
        </div>
      </form>
    </Modal>
  );
}

function LabelHints({ length, problem }: { length: number; problem: string | null }) {
  return (
    <div className="field-below">
      <div>
        {problem !== null && (
          <p id="key-label-problem" className="field-problem">
            {problem}
          </p>
        )}
        <p id="key-label-hint" className="muted">
          Helps you tell keys apart, for example ci-deploy
        </p>
      </div>
      {length >= bounds.labelCounterCodePoints && (
        <span className={length > bounds.labelCodePointsMax ? "counter over" : "counter"}>
          {length}/{bounds.labelCodePointsMax}
        </span>
      )}
    </div>
  );
}

function CreateFailure({ failure }: { failure: Failure }) {
  return (
    <FailureNote failure={failure}>
      {failure.signedOut && "You were signed out. Sign in in another tab, then try again."}
      {!failure.signedOut && failure.mayHaveHappened && (
        <>Couldn’t create the key: {failure.message} Trying again is safe: it never makes a second key.</>
      )}
      {!failure.signedOut && !failure.mayHaveHappened && failure.message}
    </FailureNote>
  );
}
