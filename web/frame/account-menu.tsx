import { useId, useState } from "react";
import { Icon } from "../controls/icon.tsx";
import { Lazy } from "../lazy/lazy.tsx";

/** The account button and its menu. `onSignedOut` is called after the person has signed out. */
export function AccountMenu({ email, onSignedOut }: { email: string; onSignedOut(): void }) {
  const menuId = useId();
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" className="account-button" popoverTarget={menuId}>
        <span className="visually-hidden">Account </span>
        <span className="avatar" aria-hidden="true">
          {email.slice(0, 1).toUpperCase()}
        </span>
        <span className="account-email">{email}</span>
        <Icon name="sort" />
      </button>
      <div
        id={menuId}
        popover="auto"
        className="account-menu"
        onToggle={(event) => setOpen(event.newState === "open")}
      >
        {open && (
          <Lazy until={<p className="muted">One moment.</p>}>
            {({ AccountMenuContent }) => <AccountMenuContent email={email} onSignedOut={onSignedOut} />}
          </Lazy>
        )}
      </div>
    </>
  );
}
