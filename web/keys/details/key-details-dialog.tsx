import { useRef } from "react";
import type { Key } from "../../api/messages.ts";
import { CopyButton } from "../../controls/copy-button.tsx";
import { Modal } from "../../controls/modal.tsx";
import { isActive } from "../key-pages.ts";
import { endInWords } from "../key-words.ts";
import { Fact, When } from "./fact.tsx";
import { LifeFacts } from "./life-facts.tsx";
import { UsesFact } from "./uses-fact.tsx";

interface KeyDetailsDialogProps {
  readonly apiKey: Key;
  /** The keys that the page has read. They name the key that this one replaces. */
  readonly known: readonly Key[];
  onEdit(): void;
  onRotate(): void;
  onRevoke(): void;
  /** Opens the details of the key that this one replaces, or is replaced by. */
  onOther(key: Key): void;
  onClose(): void;
}

/**
 * All that is known of a key, in full: the whole label, its id, the exact times, and its limits.
 */
export function KeyDetailsDialog(props: KeyDetailsDialogProps) {
  const { apiKey, known, onEdit, onRotate, onRevoke, onOther, onClose } = props;
  const closeButton = useRef<HTMLButtonElement>(null);
  const active = isActive(apiKey);
  return (
    <Modal id="key-details" title="Key details" firstFocus={closeButton} onCloseRequest={onClose}>
      <dl id="key-details-text" className="facts">
        <Fact name="Label">
          {apiKey.label ? <bdi>{apiKey.label}</bdi> : <span className="muted">No label</span>}
        </Fact>
        <Fact name="Key">
          <code>{apiKey.redactedValue}</code>
        </Fact>
        <Fact name="Id">
          <span className="copied-fact">
            <code>{apiKey.id}</code>
            <CopyButton text={apiKey.id} what="Key id" />
          </span>
        </Fact>
        <Fact name="Created">
          <When time={apiKey.createTime} by={apiKey.createdBy} />
        </Fact>
        <Fact name="Last used">
          {apiKey.lastUseTime ? (
            <When time={apiKey.lastUseTime} />
          ) : (
            <span className="muted">Never used</span>
          )}
        </Fact>
        <UsesFact apiKey={apiKey} />
        <LifeFacts {...{ apiKey, known, onOther }} />
        {!active && (
          <Fact name={endInWords(apiKey)}>
            <When time={apiKey.revokeTime ?? apiKey.expireTime} by={apiKey.revokedBy} />
          </Fact>
        )}
      </dl>
      <div className="dialog-buttons">
        {active && (
          <>
            <button type="button" className="button button-quiet-danger" onClick={onRevoke}>
              Revoke key…
            </button>
            {!apiKey.replacedByKeyId && (
              <button type="button" className="button" onClick={onRotate}>
                Rotate…
              </button>
            )}
            <button type="button" className="button" onClick={onEdit}>
              Edit…
            </button>
          </>
        )}
        <button ref={closeButton} type="button" className="button" onClick={onClose}>
          Close
        </button>
      </div>
    </Modal>
  );
}
