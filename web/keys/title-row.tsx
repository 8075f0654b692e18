import type { Ref } from "react";
import { Icon } from "../controls/icon.tsx";

interface TitleRowProps {
  /** Undefined while it is read. */
  readonly teamName: string | undefined;
  /** The count of keys where the team has as many as it may; null otherwise. */
  readonly full: number | null;
  readonly headingRef: Ref<HTMLHeadingElement>;
  readonly createRef: Ref<HTMLButtonElement>;
  onCreate(): void;
}

/** What the page is, and the way to a new key: there at once, whatever else is still read. */
export function TitleRow({ teamName, full, headingRef, createRef, onCreate }: TitleRowProps) {
  return (
    <div className="title-row">
      <div>
        <h1 ref={headingRef} tabIndex={-1}>
          API keys
        </h1>
        {/* Its lines keep their place until the team's name is known. */}
        <p className={teamName === undefined ? "muted not-yet" : "muted"}>
          Keys let programs run your team’s apps. Every member of <bdi>{teamName ?? "the team"}</bdi> shares
          them; anyone who has a key can use it.
        </p>
      </div>
      <div className="title-action">
        {/* Not `disabled`, which would take the focus from whoever just made the last key. */}
        <button
          ref={createRef}
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
