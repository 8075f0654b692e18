import type { ReactNode } from "react";
import { Modal } from "../controls/modal.tsx";
import { Lazy } from "./lazy.tsx";
import { type Parts, useParts } from "./load-parts.ts";

interface LazyDialogProps {
  /** The heading until the dialog is loaded. */
  readonly title: string;
  onCloseRequest(): void;
  readonly children: (parts: Parts) => ReactNode;
}

/** A dialog of the lazy parts. If they are not loaded yet, a dialog that says so opens at once. */
export function LazyDialog({ title, onCloseRequest, children }: LazyDialogProps) {
  const parts = useParts();
  if (typeof parts === "object") return children(parts);
  return (
    <Modal id="lazy-dialog" title={title} onCloseRequest={onCloseRequest}>
      <div id="lazy-dialog-text">
        <Lazy until={<p className="muted">One moment.</p>}>{children}</Lazy>
      </div>
    </Modal>
  );
}
