import { MessagePage } from "../frame/message-page.tsx";
import { PlainFrame } from "../frame/plain-frame.tsx";

/** What is left after signing out. It does not go on to `/sign-in`, which could sign the person in again. */
export function SignedOutPage() {
  return (
    <PlainFrame>
      <MessagePage title="You are signed out">
        <p className="muted">Keys of your teams keep working.</p>
        <p>
          <a className="button button-primary" href="/sign-in">
            Sign in
          </a>
        </p>
      </MessagePage>
    </PlainFrame>
  );
}
