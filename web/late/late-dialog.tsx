import type { ReactNode } from "react";
import { Modal } from "../controls/modal.tsx";
import { Late } from "./late.tsx";
import { type Parts, useParts } from "./load-parts.ts";

interface LateDialogProps {
  /** The heading until the dialog itself is here. */
  readonly title: string;
  onCloseRequest(): void;
  readonly children: (parts: Parts) => ReactNode;
}

/** A dialog that comes late. Usually it is here before it is asked for; else one that says so opens at once. */
export function LateDialog({ title, onCloseRequest, children }: LateDialogProps) {
  const parts = useParts();
  if (typeof parts === "object") return children(parts);
  return (
    <Modal id="late-dialog" title={title} onCloseRequest={onCloseRequest}>
      <div id="late-dialog-text">
        <Late until={<p className="muted">One moment.</p>}>{children}</Late>
      </div>
    </Modal>
  );
}
