import { MessagePage } from "../controls/message-page.tsx";
import { PlainFrame } from "../frame/plain-frame.tsx";

/**
 * The page after signing out. It doesn't go on to `/sign-in`, which could sign the person in again.
 */
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
