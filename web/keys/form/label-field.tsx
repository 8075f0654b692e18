import type { Ref } from "react";
import { bounds } from "../../bounds.ts";
import { labelLength } from "./label-problem.ts";

interface LabelFieldProps {
  readonly label: string;
  readonly readOnly: boolean;
  /** Why the label would be refused; null if it would not, or was not checked yet. */
  readonly problem: string | null;
  readonly ref?: Ref<HTMLInputElement>;
  onChange(label: string): void;
}

/** The field of a key's label. Near the limit it shows how much of it is used. */
export function LabelField({ label, readOnly, problem, ref, onChange }: LabelFieldProps) {
  return (
    <div className="field">
      <label htmlFor="key-label">Label (optional)</label>
      <input
        ref={ref}
        id="key-label"
        type="text"
        value={label}
        readOnly={readOnly}
        autoComplete="off"
        data-1p-ignore
        data-lpignore="true"
        aria-invalid={problem !== null}
        aria-describedby={problem === null ? "key-label-hint" : "key-label-problem key-label-hint"}
        onChange={(event) => onChange(event.currentTarget.value)}
      />
      <LabelHints length={labelLength(label)} problem={problem} />
    </div>
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
