interface JsonFieldProps {
  readonly text: string;
  /** Why it can't be sent; null where it can. */
  readonly problem: string | null;
  onChange(text: string): void;
}

/** The field of the JSON that a run sends beside its text. */
export function JsonField({ text, problem, onChange }: JsonFieldProps) {
  return (
    <div className="field">
      <label htmlFor="json-input">JSON input (optional)</label>
      <input
        id="json-input"
        type="text"
        value={text}
        placeholder='{"city":"Oslo"}'
        autoComplete="off"
        spellCheck={false}
        aria-invalid={problem !== null}
        aria-describedby={problem === null ? undefined : "json-input-problem"}
        onChange={(event) => onChange(event.currentTarget.value)}
      />
      {problem !== null && (
        <p id="json-input-problem" className="field-problem" role="status">
          {problem}
        </p>
      )}
    </div>
  );
}
