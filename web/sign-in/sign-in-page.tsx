import { useEffect } from "react";
import { rpcs } from "../api/rpcs.ts";
import { bounds } from "../bounds.ts";
import { MessagePage } from "../controls/message-page.tsx";
import { returnPath } from "../navigation/routes.ts";
import { useRpc } from "../use-rpc.ts";
import { FailedSignInPage } from "./failed-sign-in-page.tsx";
import { NewLink } from "./new-link.tsx";

/** `/sign-in`: says why a sign-in has failed, or otherwise how to sign in. */
export function SignInPage() {
  const error = new URLSearchParams(window.location.search).get("error");
  return error === null ? <LocalSignInPage /> : <FailedSignInPage error={error} />;
}

/**
 * How to sign in with a one-time link. The link opens in a tab of its own, so this page polls for a
 * session. When there is one, it goes back to the page that the person came from.
 */
function LocalSignInPage() {
  const session = useRpc(
    rpcs.getSession,
    {},
    { retry: false, refetchInterval: bounds.signInPollMs, refetchOnWindowFocus: "always" },
  );
  const signedIn = session.isSuccess && !session.isError;
  useEffect(() => {
    if (signedIn) window.location.replace(returnPath(window.location.href));
  }, [signedIn]);
  return (
    <MessagePage title="Sign in to Keyrun">
      <p>Open the one-time link that Keyrun printed when it started.</p>
      <p className="muted">Or make a new one, in the folder that Keyrun was started in:</p>
      <NewLink />
    </MessagePage>
  );
}
