import { type ReactNode, type RefObject, useLayoutEffect, useRef } from "react";
import { Icon } from "./icon.tsx";

interface ModalProps {
  readonly title: string;
  /** The id of the heading. The text that describes the dialog has this id with "-text". */
  readonly id: string;
  readonly role?: "alertdialog";
  readonly size?: "wide";
  /** Gets the focus when the dialog opens. Without it the browser chooses. */
  readonly firstFocus?: RefObject<HTMLElement | null>;
  /** Called on Esc and on the X. The dialog stays until it is no longer rendered. */
  onCloseRequest(): void;
  readonly children: ReactNode;
}

/**
 * A native modal dialog (W3C technique H102), open for as long as it is rendered.
 *
 * It never closes by itself. That takes `closedby="none"` and a listener for Esc: where only
 * `cancel` is prevented, a browser lets a second Esc through.
 *
 * React drops `autofocus`, so the dialog sets the focus itself. It does so before the first paint,
 * because a person who sees the dialog may press a key at once.
 */
export function Modal({ title, id, role, size, firstFocus, onCloseRequest, children }: ModalProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const askToClose = useRef(onCloseRequest);
  askToClose.current = onCloseRequest;

  useLayoutEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    firstFocus?.current?.focus();
    return () => shown?.close();
  }, [firstFocus]);

  // Before the paint as well, for the same reason.
  useLayoutEffect(() => {
    // On the document, because a click on the backdrop moves the focus out of the dialog.
    function onKeyDown(event: KeyboardEvent) {
      if (event.key !== "Escape" || event.isComposing) return;
      event.preventDefault();
      askToClose.current();
    }
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, []);

  return (
    <dialog
      ref={dialog}
      className={size === "wide" ? "dialog dialog-wide" : "dialog"}
      closedby="none"
      onCancel={(event) => event.preventDefault()}
      aria-labelledby={id}
      aria-describedby={`${id}-text`}
      {...(role === undefined ? {} : { role })}
    >
      <div className="dialog-head">
        <h2 id={id}>{title}</h2>
        <button type="button" className="icon-button" aria-label="Close" onClick={onCloseRequest}>
          <Icon name="close" />
        </button>
      </div>
      {children}
    </dialog>
  );
}
