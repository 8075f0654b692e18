import { type ReactNode, useRef, useState } from "react";
import type { Key } from "../../api/messages.ts";
import { Modal } from "../../controls/modal.tsx";
import { useRunnableApps } from "../../try-it/use-runnable-apps.ts";
import { keyInWords } from "../key-words.ts";
import { CloseQuestion } from "./close-question.tsx";
import { SecretBox } from "./secret-box.tsx";
import { TestRequest } from "./test-request.tsx";
import { useLeaveGuard } from "./use-leave-guard.ts";

interface SaveKeyProps {
  readonly apiKey: Key;
  /** Shown here once, and nowhere else. */
  readonly value: string;
  readonly teamId: string;
  /** More to know about the key, below the first sentences. */
  readonly children?: ReactNode;
  onDone(): void;
}

/**
 * The second step of creating a key, and the only time that its value is shown. Nothing but the
 * value can be copied here, so that nobody saves something else. Without a copy, it asks before it
 * closes.
 */
export function SaveKey({ apiKey, value, teamId, children, onDone }: SaveKeyProps) {
  const [copied, setCopied] = useState(false);
  const [asking, setAsking] = useState(false);
  const copyButton = useRef<HTMLButtonElement>(null);
  const { apps, first, known } = useRunnableApps(teamId);
  const appId = apiKey.appIds?.[0] ?? first;
  const isGuard = apps.find(({ id }) => id === appId)?.guard ?? false;
  useLeaveGuard(!copied, () => setAsking(true));

  function onCopied() {
    setCopied(true);
    setAsking(false);
  }
  function close() {
    if (copied) onDone();
    else setAsking(true);
  }
  function keepOpen() {
    setAsking(false);
    // The focused button disappears, so the focus moves to the one to press next.
    copyButton.current?.focus();
  }
  async function copyAndClose() {
    try {
      await navigator.clipboard.writeText(value);
    } catch {
      // The Copy button says how to copy by hand, and selects the key.
      keepOpen();
      copyButton.current?.click();
      return;
    }
    onDone();
  }

  return (
    <Modal id="save-key" title="Save your key" size="wide" firstFocus={copyButton} onCloseRequest={close}>
      <p id="save-key-text">
        Copy this key now and store it somewhere safe.{" "}
        <strong>For your security it is shown only once: you won’t be able to view it again.</strong> If you
        lose it, revoke it and create a new one.
      </p>
      {children}
      <SecretBox
        value={value}
        keyName={keyInWords(apiKey)}
        copyButton={copyButton}
        filled={!copied && !asking}
        onCopied={onCopied}
      />
      {apps.length > 0 && <TestRequest appId={appId} isGuard={isGuard} value={value} teamId={teamId} />}
      <p className="muted small">
        {known && apps.length === 0 && "This team has no app to run yet. "}
        <strong>Try it</strong>, below the keys, shows{" "}
        {known && apps.length === 0 ? "how to add one." : "how a program uses the key."}
      </p>
      {asking ? (
        <CloseQuestion onCopy={copyAndClose} onKeep={keepOpen} onClose={onDone} />
      ) : (
        <div className="dialog-buttons">
          <button type="button" className={copied ? "button button-primary" : "button"} onClick={close}>
            Done
          </button>
        </div>
      )}
    </Modal>
  );
}
