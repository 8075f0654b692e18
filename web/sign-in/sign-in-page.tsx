import { useQuery } from "@connectrpc/connect-query";
import { useEffect } from "react";
import { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import { bounds } from "../bounds.ts";
import { MessagePage } from "../frame/message-page.tsx";
import { returnPath } from "../navigation/routes.ts";
import { FailedSignInPage } from "./failed-sign-in-page.tsx";
import { NewLink } from "./new-link.tsx";

/** `/sign-in`: where a failed sign-in ends, and else how to sign in. */
export function SignInPage() {
  const error = new URLSearchParams(window.location.search).get("error");
  return error === null ? <LocalSignInPage /> : <FailedSignInPage error={error} />;
}

/**
 * Where `/sign-in` leads with local sign-in. The link opens in a tab of its own, so this page asks now and then
 * whether there is a session, and then goes back to where the person came from.
 */
function LocalSignInPage() {
  const session = useQuery(
    SessionService.method.getSession,
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
      <p className="muted">Or make a new one, in the folder that Keyrun runs in:</p>
      <NewLink />
    </MessagePage>
  );
}
