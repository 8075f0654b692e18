import { Icon } from "../controls/icon.tsx";
import { loadParts } from "./load-parts.ts";

/**
 * Says that the lazy parts could not be loaded, and what helps. After an upgrade only a reload
 * does.
 */
export function PartsFailure() {
  return (
    <div className="note" role="alert">
      <Icon name="warning" />
      <div className="note-body">
        <p>
          Couldn’t load this part of the page. If trying again doesn’t help, Keyrun may have been upgraded:{" "}
          <a href={window.location.href}>load the page again</a>.
        </p>
      </div>
      <button type="button" className="button button-small" onClick={loadParts}>
        Try again
      </button>
    </div>
  );
}
