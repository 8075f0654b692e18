import { type SubmitEvent, useRef } from "react";
import type { Failure } from "../../api/failure.ts";
import type { Key } from "../../api/messages.ts";
import { Icon } from "../../controls/icon.tsx";
import { Modal } from "../../controls/modal.tsx";
import { WholeLabel } from "../../controls/whole-label.tsx";
import { useServices } from "../../services.tsx";
import { exactTime, exactTimeLanguage } from "../../time/local-format.ts";
import { useTicking } from "../../time/ticker.ts";
import { Ago } from "../ago.tsx";
import { AttemptFailure } from "../form/attempt-failure.tsx";
import { isActive } from "../key-pages.ts";
import { keyInWords } from "../key-words.ts";
import { AlreadyEnded } from "../revoke/already-ended.tsx";
import { oldKeyEndMs, overlaps } from "./overlap.ts";

interface RotateFormProps {
  readonly apiKey: Key;
  /** True when the key that this one replaces still works. Then this one can't go on. */
  readonly mustEndNow: boolean;
  readonly overlapS: number;
  readonly pending: boolean;
  /** Why the last attempt made no key; null before the first. */
  readonly failure: Failure | null;
  onChange(overlapS: number): void;
  onSubmit(): void;
  onCancel(): void;
}

/** The first step of replacing a key: how long the old one goes on. */
export function RotateForm(props: RotateFormProps) {
  const { apiKey, mustEndNow, overlapS, pending, failure, onChange, onSubmit, onCancel } = props;
  const field = useRef<HTMLSelectElement>(null);
  function submit(event: SubmitEvent) {
    event.preventDefault();
    if (!pending) onSubmit();
  }
  const cancel = () => {
    if (!pending) onCancel();
  };
  if (!isActive(apiKey) && !pending) {
    return (
      <Modal id="revoke-key" title={`Rotate ${keyInWords(apiKey)}?`} onCloseRequest={onCancel}>
        <AlreadyEnded apiKey={apiKey} />
        <div className="dialog-buttons">
          <button type="button" className="button" onClick={onCancel}>
            Close
          </button>
        </div>
      </Modal>
    );
  }
  return (
    <Modal id="rotate-key" title={`Rotate ${keyInWords(apiKey)}`} firstFocus={field} onCloseRequest={cancel}>
      <form onSubmit={submit}>
        <WholeLabel label={apiKey.label} />
        <p id="rotate-key-text" className="muted">
          A new key with the same label, time until its expiry and restrictions takes the place of{" "}
          <code>{apiKey.redactedValue}</code>.
        </p>
        <div className="field">
          <label htmlFor="key-overlap">The old key keeps working</label>
          <div className="field-row">
            <div className="select">
              <select
                ref={field}
                id="key-overlap"
                value={overlapS}
                aria-describedby="key-overlap-hint"
                onChange={({ currentTarget: { value } }) => {
                  if (!pending) onChange(Number(value));
                }}
              >
                {overlaps
                  .filter((one) => !mustEndNow || one.overlapS === 0)
                  .map((one) => (
                    <option key={one.overlapS} value={one.overlapS}>
                      {one.words}
                    </option>
                  ))}
              </select>
              <Icon name="sort" />
            </div>
          </div>
          <p id="key-overlap-hint" className="muted small">
            {mustEndNow && "The key that it replaced still works, so this one must end at once. "}
            {overlapS === 0 ? (
              "It is revoked at once. Anything still using it gets 401."
            ) : (
              <>
                Both work until <EndTime apiKey={apiKey} overlapS={overlapS} />. Its last use shows whether it
                is still needed.
              </>
            )}
          </p>
        </div>
        {overlapS === 0 && apiKey.lastUseTime && (
          <p className="warning">
            <Icon name="warning" />
            <span>
              Last used <Ago time={apiKey.lastUseTime} />
            </span>
          </p>
        )}
        {failure !== null && (
          <AttemptFailure
            failure={failure}
            what="rotate the key"
            safe="Trying again is safe: it never makes a second key."
          />
        )}
        <div className="dialog-buttons">
          <button type="button" className="button" aria-disabled={pending} onClick={cancel}>
            Cancel
          </button>
          <button type="submit" className="button button-primary" aria-disabled={pending}>
            {pending ? "Rotating…" : "Rotate key"}
          </button>
        </div>
      </form>
    </Modal>
  );
}

function EndTime({ apiKey, overlapS }: { apiKey: Key; overlapS: number }) {
  const { ticker } = useServices();
  const words = useTicking(ticker, (nowMs) => {
    const ms = oldKeyEndMs(apiKey, overlapS, nowMs);
    // To the minute, because a time that changes every second draws the eye.
    return exactTime(Math.floor(ms / 60_000) * 60_000);
  });
  return (
    <span lang={exactTimeLanguage()} dir="auto">
      {words}
    </span>
  );
}
