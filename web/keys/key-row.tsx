import type { ReactNode } from "react";
import type { Key } from "../api/messages.ts";
import { Icon } from "../controls/icon.tsx";
import { Ago } from "./ago.tsx";
import { isActive } from "./key-pages.ts";
import { endInWords, keyInWords, keyLabel } from "./key-words.ts";
import { tableRoles } from "./table-roles.ts";
import { Until } from "./until.tsx";

interface KeyRowProps {
  readonly apiKey: Key;
  readonly isNew: boolean;
  /** How the key was used, drawn; absent until it is known. */
  readonly line: ReactNode;
  /** Someone else revoked the key a moment ago, or it has just expired. */
  readonly departing: boolean;
  onOpen(key: Key): void;
  onRevoke(key: Key): void;
  /** Opens the menu of what can be done with the key. */
  onMenu(key: Key): void;
}

/**
 * One key: its label, which opens its details, its age, its last use, its end, and what can be done
 * with it.
 */
export function KeyRow(props: KeyRowProps) {
  const { apiKey, line, departing, onOpen } = props;
  const active = isActive(apiKey);
  return (
    <tr {...tableRoles.row} className={active ? undefined : "past"}>
      <th {...tableRoles.rowHeader}>
        <button
          type="button"
          id={detailsButtonId(apiKey.id)}
          className={apiKey.label ? "key-label" : "key-label muted"}
          aria-haspopup="dialog"
          onClick={() => onOpen(apiKey)}
        >
          <bdi>{keyLabel(apiKey)}</bdi>
          <Icon name="chevron" />
        </button>
        <Badges {...props} />
      </th>
      <td {...tableRoles.cell}>
        <code className="redacted">{apiKey.redactedValue}</code>
      </td>
      <td {...tableRoles.cell} data-label="Created">
        {apiKey.createTime && <Ago time={apiKey.createTime} />}
      </td>
      {departing && !active ? (
        <td {...tableRoles.cell} colSpan={3} className="departure ending">
          {endInWords(apiKey)}{" "}
          {apiKey.revokedBy && (
            <>
              by <bdi>{apiKey.revokedBy}</bdi>{" "}
            </>
          )}
          just now
        </td>
      ) : (
        <>
          <td {...tableRoles.cell} data-label={apiKey.lastUseTime && "Used"}>
            {apiKey.lastUseTime ? (
              <>
                <Ago time={apiKey.lastUseTime} />
                <span className="usage-line">{line}</span>
              </>
            ) : (
              <span className="muted">Never used</span>
            )}
          </td>
          {active ? <ActiveEnd {...props} /> : <Ending apiKey={apiKey} />}
        </>
      )}
    </tr>
  );
}

/** What is to be known of the key at a glance, below its label; nothing of most. */
function Badges({ apiKey, isNew }: KeyRowProps) {
  const ofActive = { New: isNew, Restricted: isRestricted(apiKey), Replaced: apiKey.replacedByKeyId };
  const words = isActive(apiKey)
    ? Object.entries(ofActive).flatMap(([word, is]) => (is ? [word] : []))
    : [endInWords(apiKey)];
  if (words.length === 0) return null;
  return (
    <span className="badges">
      {words.map((word) => (
        <span key={word} className={word === "New" ? "badge badge-new" : "badge badge-past"}>
          {word}
        </span>
      ))}
    </span>
  );
}

/** When an active key ends, and what can be done with it. */
function ActiveEnd({ apiKey, onRevoke, onMenu }: KeyRowProps) {
  const name = `${keyInWords(apiKey)}${apiKey.replacedByKeyId ? ", the old key" : ""}`;
  return (
    <>
      {apiKey.expireTime ? (
        <td {...tableRoles.cell} data-label={apiKey.replacedByKeyId ? "Ends" : "Expires"}>
          <Until time={apiKey.expireTime} />
        </td>
      ) : (
        <td {...tableRoles.cell} className="never">
          Never
        </td>
      )}
      <td {...tableRoles.cell} className="row-actions">
        <button
          type="button"
          id={revokeButtonId(apiKey.id)}
          className="button button-small button-quiet-danger"
          aria-label={`Revoke ${name}`}
          onClick={() => onRevoke(apiKey)}
        >
          Revoke
        </button>
        <button
          type="button"
          id={menuButtonId(apiKey.id)}
          className="icon-button"
          aria-label={`Actions for ${name}`}
          aria-haspopup="menu"
          onClick={() => onMenu(apiKey)}
        >
          <Icon name="more" />
        </button>
      </td>
    </>
  );
}

function Ending({ apiKey }: { apiKey: Key }) {
  const time = apiKey.revokeTime ?? apiKey.expireTime;
  return (
    <td {...tableRoles.cell} colSpan={2} className="ended" data-label={endInWords(apiKey)}>
      {time && <Ago time={time} />}
      {apiKey.revokedBy && (
        <span className="by" title={apiKey.revokedBy}>
          by <bdi>{apiKey.revokedBy}</bdi>
        </span>
      )}
    </td>
  );
}

/** True for a key that may run some apps alone, or has a limit of its own. The details tell. */
function isRestricted({ appIds = [], requestsPerMinute, quota }: Key): boolean {
  return appIds.length > 0 || requestsPerMinute !== undefined || quota !== undefined;
}

/** The id of the button that opens a key's details. */
export function detailsButtonId(keyId: string): string {
  return `details-${keyId}`;
}

/** The id of the Revoke button in a key's row. The focus goes there when the row above has gone. */
export function revokeButtonId(keyId: string): string {
  return `revoke-${keyId}`;
}

/** The id of the button that opens the menu of a key. */
export function menuButtonId(keyId: string): string {
  return `actions-${keyId}`;
}
