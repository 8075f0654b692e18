import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type ReactNode, useRef } from "react";
import type { Key } from "#gen/keyrun/v1/key_pb.ts";
import { CopyButton } from "../../controls/copy-button.tsx";
import { Modal } from "../../controls/modal.tsx";
import { Ago } from "../ago.tsx";
import { ExactTime } from "../exact-time.tsx";
import { isActive } from "../key-pages.ts";

interface KeyDetailsDialogProps {
  readonly apiKey: Key;
  onRevoke(): void;
  onClose(): void;
}

/** All that is known of a key, in full: the whole label, its id, and the exact times. */
export function KeyDetailsDialog({ apiKey, onRevoke, onClose }: KeyDetailsDialogProps) {
  const closeButton = useRef<HTMLButtonElement>(null);
  return (
    <Modal id="key-details" title="Key details" firstFocus={closeButton} onCloseRequest={onClose}>
      <dl id="key-details-text" className="facts">
        <Fact name="Label">
          {apiKey.label === "" ? <span className="muted">No label</span> : <bdi>{apiKey.label}</bdi>}
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
        {!isActive(apiKey) && (
          <Fact name="Revoked">
            <When time={apiKey.revokeTime} by={apiKey.revokedBy} />
          </Fact>
        )}
      </dl>
      <div className="dialog-buttons">
        {isActive(apiKey) && (
          <button type="button" className="button button-quiet-danger" onClick={onRevoke}>
            Revoke key…
          </button>
        )}
        <button ref={closeButton} type="button" className="button" onClick={onClose}>
          Close
        </button>
      </div>
    </Modal>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

function When({ time, by }: { time: Timestamp | undefined; by?: string }) {
  return (
    <>
      {time && (
        <>
          <ExactTime time={time} />{" "}
          <span className="muted">
            (<Ago time={time} />)
          </span>
        </>
      )}
      {by && (
        <span className="fact-by muted">
          by <bdi>{by}</bdi>
        </span>
      )}
    </>
  );
}
