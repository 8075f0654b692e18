import type { Ref } from "react";
import { Icon } from "../../controls/icon.tsx";
import { useServices } from "../../services.tsx";
import { dayInWords, dayLanguage } from "../../time/day-format.ts";
import { useTicking } from "../../time/ticker.ts";
import { dayOf, type Expiry, expiryMs } from "./expiry.ts";

interface ExpiryFieldProps {
  readonly expiry: Expiry;
  readonly choices: readonly { readonly choice: string; readonly words: string }[];
  readonly readOnly: boolean;
  readonly problem: string | null;
  /** What stands below the field for "never". */
  readonly neverHint: string;
  readonly ref?: Ref<HTMLInputElement>;
  onChange(expiry: Expiry): void;
}

/** The choice of a key's end: one of a few spans, or a day. Says which day a span leads to. */
export function ExpiryField(props: ExpiryFieldProps) {
  const { expiry, choices, readOnly, problem, neverHint, ref, onChange } = props;
  const { ticker } = useServices();
  const describedBy = problem === null ? "key-expiry-hint" : "key-expiry-problem key-expiry-hint";
  return (
    <div className="field">
      <label htmlFor="key-expiry">Expires</label>
      <div className="field-row">
        <div className="select">
          <select
            id="key-expiry"
            value={expiry.choice}
            aria-describedby={describedBy}
            onChange={({ currentTarget: { value } }) => {
              if (!readOnly) onChange({ ...expiry, choice: value });
            }}
          >
            {choices.map(({ choice, words }) => (
              <option key={choice} value={choice}>
                {words}
              </option>
            ))}
          </select>
          <Icon name="sort" />
        </div>
        {expiry.choice === "date" && (
          <input
            ref={ref}
            type="date"
            aria-label="Last day"
            aria-describedby={describedBy}
            aria-invalid={problem !== null}
            min={dayOf(ticker.unixMs())}
            value={expiry.date}
            readOnly={readOnly}
            onChange={(event) => onChange({ ...expiry, date: event.currentTarget.value })}
          />
        )}
      </div>
      <div className="field-below">
        <div>
          {problem !== null && (
            <p id="key-expiry-problem" className="field-problem">
              {problem}
            </p>
          )}
          <p id="key-expiry-hint" className="muted">
            <ExpiryHint expiry={expiry} neverHint={neverHint} />
          </p>
        </div>
      </div>
    </div>
  );
}

function ExpiryHint({ expiry, neverHint }: { expiry: Expiry; neverHint: string }) {
  const { ticker } = useServices();
  const day = useTicking(ticker, (nowMs) => dayInWords(expiryMs(expiry, nowMs) ?? nowMs));
  if (expiry.choice === "never") return neverHint;
  if (expiry.choice === "date") return "The key works until the end of that day, in your time zone.";
  return (
    <>
      The key works until{" "}
      <span lang={dayLanguage()} dir="auto">
        {day}
      </span>
      .
    </>
  );
}
