import type { Ref } from "react";
import { Icon } from "../controls/icon.tsx";

interface TitleRowProps {
  /** Undefined while it is loading. */
  readonly teamName: string | undefined;
  /** The number of keys when the team has as many as it may have; null otherwise. */
  readonly full: number | null;
  readonly headingRef?: Ref<HTMLHeadingElement>;
  onCreate(): void;
}

/** The title of the page and the button for a new key. Shown at once, while the rest is loading. */
export function TitleRow({ teamName, full, headingRef, onCreate }: TitleRowProps) {
  return (
    <div className="title-row">
      <div>
        <h1 ref={headingRef} tabIndex={-1}>
          API keys
        </h1>
        <p className="muted title-text" data-room={purpose("Engineering")}>
          <span>{purpose(teamName ?? "the team")}</span>
        </p>
      </div>
      <div className="title-action">
        {/* Not `disabled`: that would take the focus from a person who has just made the last
            key. */}
        <button
          id="new-key"
          type="button"
          className="button button-primary"
          aria-disabled={full !== null}
          aria-describedby={full === null ? undefined : "keys-full"}
          onClick={() => {
            if (full === null) onCreate();
          }}
        >
          <Icon name="plus" />
          Create new secret key
        </button>
        {full !== null && (
          <p id="keys-full" className="small muted">
            {full} of {full} keys. Revoke one first.
          </p>
        )}
      </div>
    </div>
  );
}

const nameLengthMax = 24;

/**
 * What keys are for. One text, because the end of several would move when the name is known. The
 * signs around the name isolate its direction, as `<bdi>` does. The switcher shows a long name
 * whole.
 */
function purpose(team: string): string {
  const letters = [...team];
  const name = letters.length > nameLengthMax ? `${letters.slice(0, nameLengthMax - 1).join("")}…` : team;
  return `Keys let programs run your team’s apps. Every member of \u2068${name}\u2069 shares them; anyone who has a key can use it.`;
}
