import { type RefObject, useRef } from "react";
import { CopyButton } from "../../controls/copy-button.tsx";
import { LongText } from "../../controls/long-text.tsx";

interface SecretBoxProps {
  readonly value: string;
  /** Names the key, because a person may create several in a row. */
  readonly keyName: string;
  readonly copyButton: RefObject<HTMLButtonElement | null>;
  /** Whether copying is what the dialog asks for now. */
  readonly filled: boolean;
  onCopied(): void;
}

/**
 * The key's value in a box with its Copy button. It is not masked, because this is the one time to
 * read it. Where it is wider than the box it goes on in the next line.
 */
export function SecretBox({ value, keyName, copyButton, filled, onCopied }: SecretBoxProps) {
  const field = useRef<HTMLTextAreaElement>(null);
  const select = () => field.current?.select();

  return (
    <div className="field">
      <div className="field-head">
        <label htmlFor="secret-key">API key</label>
        <LongText text={keyName} />
      </div>
      <div className="secret-box">
        <textarea
          ref={field}
          id="secret-key"
          rows={1}
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
          // Copying by hand counts as well, if all of it was copied.
          onCopy={({ currentTarget: { selectionStart, selectionEnd } }) => {
            if (selectionEnd - selectionStart === value.length) onCopied();
          }}
        />
        <CopyButton
          ref={copyButton}
          text={value}
          what="API key"
          className={filled ? "button button-small button-primary" : "button button-small"}
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
