import { type RefObject, useRef } from "react";
import { CopyButton } from "../../controls/copy-button.tsx";

interface SecretBoxProps {
  readonly value: string;
  /** Names the key, because a person may create several in a row. */
  readonly keyName: string;
  readonly copyButton: RefObject<HTMLButtonElement | null>;
  onCopied(): void;
}

/**
 * The key's value in a box with its Copy button. It is not masked, because this is the one time to
 * read it.
 */
export function SecretBox({ value, keyName, copyButton, onCopied }: SecretBoxProps) {
  const field = useRef<HTMLInputElement>(null);
  const select = () => field.current?.select();

  return (
    <div className="field">
      <div className="field-head">
        <label htmlFor="secret-key">Secret key</label>
        <bdi className="muted">{keyName}</bdi>
      </div>
      <div className="secret-box">
        <input
          ref={field}
          id="secret-key"
          type="text"
          readOnly
          value={value}
          autoComplete="off"
          autoCapitalize="off"
          spellCheck={false}
          data-1p-ignore
          data-bwignore
          data-lpignore="true"
          data-form-type="other"
          onFocus={select}
          // Copying by hand counts as well.
          onCopy={onCopied}
        />
        <CopyButton
          ref={copyButton}
          text={value}
          what="Secret key"
          className="button button-small button-primary"
          onCopied={onCopied}
          onRefused={() => {
            field.current?.focus();
            select();
          }}
        />
      </div>
    </div>
  );
}
