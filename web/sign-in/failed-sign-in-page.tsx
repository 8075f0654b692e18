import { MessagePage } from "../controls/message-page.tsx";
import { returnPath, signInPath } from "../navigation/routes.ts";
import { failedSignInWords } from "./failed-sign-in-words.ts";

/** The page after a sign-in at the issuer that failed: says why, and how to try again. */
export function FailedSignInPage({ error }: { readonly error: string }) {
  const { text, retry } = failedSignInWords(error);
  return (
    <MessagePage title="You are not signed in">
      <p>{text}</p>
      {retry && (
        <p>
          <a className="button button-primary" href={signInPath(returnPath(window.location.href))}>
            Sign in again
          </a>
        </p>
      )}
    </MessagePage>
  );
}
