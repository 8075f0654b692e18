import { useCallback, useEffect, useState } from "react";
import { MessagePage } from "../controls/message-page.tsx";
import { returnPath } from "../navigation/routes.ts";
import { NewLink } from "./new-link.tsx";
import { type Redemption, redeemCode, takeSignInCode } from "./redeem-code.ts";

/**
 * The page that a one-time link opens. `code` is null when the address had none, as after a reload.
 */
export function SignInLinkPage({ code: codeAtFirst }: { code: string | null }) {
  const [code, setCode] = useState(codeAtFirst);
  const [redemption, setRedemption] = useState<Redemption | "pending">("pending");

  const redeem = useCallback(async () => {
    setRedemption("pending");
    const outcome = code === null ? "refused" : await redeemCode(code, fetch);
    if (outcome === "signed-in") window.location.replace(returnPath(window.location.href));
    else setRedemption(outcome);
  }, [code]);
  useEffect(() => void redeem(), [redeem]);
  // A new link that is opened in this tab changes nothing but what is behind the #.
  useEffect(() => {
    const takeNext = () => setCode((before) => takeSignInCode(window) ?? before);
    window.addEventListener("hashchange", takeNext);
    return () => window.removeEventListener("hashchange", takeNext);
  }, []);

  return (
    <>
      {redemption === "refused" && (
        <MessagePage title="This sign-in link no longer works">
          <p>It was used before, or it is older than 10 minutes.</p>
          <p className="muted">Make a new one, in the folder that Keyrun was started in:</p>
          <NewLink />
        </MessagePage>
      )}
      {redemption === "unreachable" && (
        <MessagePage title="Keyrun can’t be reached">
          <p role="alert">Check that Keyrun is running, then try again.</p>
          <p>
            <button type="button" className="button button-primary" onClick={redeem}>
              Try again
            </button>
          </p>
        </MessagePage>
      )}
      {redemption === "pending" && (
        <MessagePage title="Signing in…">
          <p className="muted" role="status">
            One moment.
          </p>
        </MessagePage>
      )}
    </>
  );
}
