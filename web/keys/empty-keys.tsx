import type { ReactNode } from "react";
import { Icon } from "../controls/icon.tsx";

interface EmptyKeysProps {
  onCreate(): void;
  /** How to use a key, once there is one. */
  readonly children: ReactNode;
}

/** What a team without keys sees in place of the table. */
export function EmptyKeys({ onCreate, children }: EmptyKeysProps) {
  return (
    <div className="empty">
      <div className="empty-invitation">
        <span className="empty-icon">
          <Icon name="key" />
        </span>
        <h2>No API keys yet</h2>
        <p className="muted">
          Create a key to call <code>POST /api/apps/&lt;app_id&gt;/run</code> from your code.
        </p>
        <button type="button" className="button" onClick={onCreate}>
          <Icon name="plus" />
          Create your first key
        </button>
      </div>
      {children}
    </div>
  );
}
