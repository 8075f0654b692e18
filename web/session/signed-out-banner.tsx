import { useCell } from "../cell.ts";
import { signInPath } from "../navigation/routes.ts";
import { useServices } from "../services.tsx";

/**
 * Says that the session is over. The page below stays, because it may show a new key that must not
 * be lost.
 */
export function SignedOutBanner() {
  const { sessionEnded, location } = useServices();
  const ended = useCell(sessionEnded);
  const path = useCell(location.path);
  return (
    <div role="status">
      {ended && (
        <div className="banner">
          <p>You were signed out</p>
          <a className="button button-small" href={signInPath(path)}>
            Sign in
          </a>
        </div>
      )}
    </div>
  );
}
