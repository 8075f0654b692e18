import { type Ref, useState } from "react";
import { Icon } from "../../controls/icon.tsx";
import { wholeNumber } from "../../time/local-format.ts";
import { useRunnableApps } from "../../try-it/use-runnable-apps.ts";
import { type KeyDraft, quotaPeriods } from "./key-draft.ts";
import { restrictionsInWords } from "./restriction-words.ts";

interface RestrictFieldsProps {
  readonly teamId: string;
  readonly draft: KeyDraft;
  readonly readOnly: boolean;
  readonly problem: string | null;
  /** The plan's limit; undefined if it is not known. */
  readonly limit: number | undefined;
  readonly rateField: Ref<HTMLInputElement>;
  readonly quotaProblem: string | null;
  readonly quotaField: Ref<HTMLInputElement>;
  onChange(change: Partial<KeyDraft>): void;
}

/** What the key may not do. Closed at first, because most keys are not restricted. */
export function RestrictFields(props: RestrictFieldsProps) {
  const { draft } = props;
  const [open, setOpen] = useState(false);
  return (
    <details className="restrict" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <Icon name="chevron" />
        Restrict
        <span className="muted">{restrictionsInWords(draft)}</span>
      </summary>
      <div className="restrict-fields">
        <AppChoice {...props} />
        <RateField {...props} />
        <QuotaField {...props} />
        <p className="muted small">Restrictions stay as they are for the life of the key.</p>
      </div>
    </details>
  );
}

function AppChoice({ teamId, draft, readOnly, onChange }: RestrictFieldsProps) {
  const { apps, known, failed } = useRunnableApps(teamId);
  const toggle = (appId: string) =>
    onChange({
      appIds: draft.appIds.includes(appId)
        ? draft.appIds.filter((one) => one !== appId)
        : [...draft.appIds, appId],
    });
  return (
    <fieldset className="app-choice" aria-describedby="key-apps-hint">
      <legend>Apps</legend>
      <p id="key-apps-hint" className="muted small">
        {failed && apps.length === 0
          ? "The apps can’t be shown right now. The key can run every app."
          : known && apps.length === 0
            ? "The team has no app to run yet."
            : "With none chosen, the key can run every app of the team."}
      </p>
      {apps.length > 0 && (
        <div className="app-list">
          {apps.map((app) => (
            <label key={app.id} className="check">
              <input
                type="checkbox"
                checked={draft.appIds.includes(app.id)}
                onChange={() => {
                  if (!readOnly) toggle(app.id);
                }}
              />
              <span>
                <bdi>{app.displayName || app.id}</bdi>
                {app.displayName && app.displayName !== app.id && <code className="muted">{app.id}</code>}
              </span>
            </label>
          ))}
        </div>
      )}
    </fieldset>
  );
}

function RateField({ draft, readOnly, problem, limit, rateField, onChange }: RestrictFieldsProps) {
  return (
    <div className="field">
      <label htmlFor="key-rate">Requests a minute (optional)</label>
      <input
        ref={rateField}
        id="key-rate"
        className="rate"
        type="text"
        inputMode="numeric"
        autoComplete="off"
        value={draft.requestsPerMinute}
        readOnly={readOnly}
        aria-invalid={problem !== null}
        aria-describedby={problem === null ? "key-rate-hint" : "key-rate-problem key-rate-hint"}
        onChange={(event) => onChange({ requestsPerMinute: event.currentTarget.value })}
      />
      <div className="field-below">
        <div>
          {problem !== null && (
            <p id="key-rate-problem" className="field-problem">
              {problem}
            </p>
          )}
          <p id="key-rate-hint" className="muted">
            {limit === undefined
              ? "A part of the team’s limit, so that one program can’t use all of it."
              : `A part of the team’s ${wholeNumber(limit)}, so that one program can’t use all of it.`}
          </p>
        </div>
      </div>
    </div>
  );
}

function QuotaField({ draft, readOnly, quotaProblem, quotaField, onChange }: RestrictFieldsProps) {
  return (
    <div className="field">
      <label htmlFor="key-quota">Requests a day or a month (optional)</label>
      <div className="field-row">
        <input
          ref={quotaField}
          id="key-quota"
          className="rate"
          type="text"
          inputMode="numeric"
          autoComplete="off"
          value={draft.quota}
          readOnly={readOnly}
          aria-invalid={quotaProblem !== null}
          aria-describedby={quotaProblem === null ? "key-quota-hint" : "key-quota-problem key-quota-hint"}
          onChange={(event) => onChange({ quota: event.currentTarget.value })}
        />
        <div className="select">
          <select
            aria-label="Period of the quota"
            value={draft.quotaPeriod}
            onChange={({ currentTarget: { value } }) => {
              const quotaPeriod = quotaPeriods.find((period) => period === value);
              if (!readOnly && quotaPeriod) onChange({ quotaPeriod });
            }}
          >
            <option value="QUOTA_PERIOD_DAY">a day</option>
            <option value="QUOTA_PERIOD_MONTH">a month</option>
          </select>
          <Icon name="sort" />
        </div>
      </div>
      <div className="field-below">
        <div>
          {quotaProblem !== null && (
            <p id="key-quota-problem" className="field-problem">
              {quotaProblem}
            </p>
          )}
          <p id="key-quota-hint" className="muted">
            A quota of the key’s own, which begins anew with each day or month of UTC.
          </p>
        </div>
      </div>
    </div>
  );
}
