import { Icon } from "../controls/icon.tsx";
import { loadParts } from "./load-parts.ts";

/** Says that the late parts could not be fetched, and what helps: after an upgrade only the new page does. */
export function PartsFailure() {
  return (
    <div className="note note-danger" role="alert">
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
