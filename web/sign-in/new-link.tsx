import { CopyButton } from "../controls/copy-button.tsx";
import { useServices } from "../services.tsx";

/**
 * The command that makes a one-time link. Sign-in needs no password, only access to the machine
 * that Keyrun runs on.
 */
export function NewLink() {
  const command = `${useServices().command} sign-in-link`;
  return (
    <>
      <div className="command">
        <code>{command}</code>
        <CopyButton text={command} what="Command" />
      </div>
      <p className="muted small">A link works once, for 10 minutes.</p>
    </>
  );
}
