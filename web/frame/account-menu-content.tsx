import { useState } from "react";
import { failureOf } from "../api/failure.ts";
import { rpcs } from "../api/rpcs.ts";
import { useServices } from "../services.tsx";
import { ThemeSwitch } from "./theme-switch.tsx";

/**
 * The person's e-mail address, the theme, and the button that signs out. `onSignedOut` is called
 * once the session is over.
 */
export function AccountMenuContent({ email, onSignedOut }: { email: string; onSignedOut(): void }) {
  const { caller, status } = useServices();
  const [pending, setPending] = useState(false);

  async function signOut() {
    if (pending) return;
    setPending(true);
    try {
      await caller.call(rpcs.signOut, {});
      onSignedOut();
    } catch (thrown) {
      // The session was over already.
      if (failureOf(thrown).signedOut) onSignedOut();
      else status.say("Couldn’t sign out. Try again.", { shown: true });
      setPending(false);
    }
  }

  return (
    <>
      <p className="account-who">
        <span>Signed in as</span>
        <bdi>{email}</bdi>
      </p>
      <ThemeSwitch />
      <button type="button" className="button" aria-disabled={pending} onClick={signOut}>
        Sign out
      </button>
    </>
  );
}
