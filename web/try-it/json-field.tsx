import { jsonProblem } from "./json-problem.ts";

/** The field of the JSON that a run sends beside its text. It is checked while a person types. */
export function JsonField({ text, onChange }: { text: string; onChange(text: string): void }) {
  const problem = jsonProblem(text);
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
