import { type Ref, useEffect, useState } from "react";
import { bounds } from "../bounds.ts";
import { Icon } from "./icon.tsx";

interface CopyButtonProps {
  readonly text: string;
  /** What is copied, as the confirmation says it: "API key". */
  readonly what: string;
  readonly className?: string;
  readonly ref?: Ref<HTMLButtonElement>;
  onCopied?(): void;
  /** Called when the clipboard refused. Select the text, so that the person can copy it by hand. */
  onRefused?(): void;
}

/** Copies a text and says so, or says how to copy it by hand. */
export function CopyButton({ text, what, className, ref, onCopied, onRefused }: CopyButtonProps) {
  const [outcome, setOutcome] = useState<"copied" | "refused" | null>(null);

  useEffect(() => {
    if (outcome !== "copied") return;
    const timer = setTimeout(() => setOutcome(null), bounds.copiedMs);
    return () => clearTimeout(timer);
  }, [outcome]);

  async function copy() {
    try {
      await navigator.clipboard.writeText(text);
      setOutcome("copied");
      onCopied?.();
    } catch {
      // The browser forbids it, or has no clipboard.
      setOutcome("refused");
      onRefused?.();
    }
  }

  return (
    <span className="copy">
      <button ref={ref} type="button" className={className ?? "button button-small"} onClick={copy}>
        <Icon name={outcome === "copied" ? "check" : "copy"} />
        <span className="copy-word">{outcome === "copied" ? "Copied" : "Copy"}</span>
        {/* In lower case within the sentence, unless it is a name. */}
        <span className="visually-hidden">
          {" "}
          {what.replace(/^[A-Z](?![A-Z])/, (one) => one.toLowerCase())}
        </span>
      </button>
      <span role="status" className={outcome === "refused" ? "copy-hint" : "visually-hidden"}>
        {outcome === "copied" && `${what} copied`}
        {outcome === "refused" && "Press Ctrl+C to copy"}
      </span>
    </span>
  );
}
