import { useCell } from "../cell.ts";
import { signInPath } from "../navigation/routes.ts";
import { useServices } from "../services.tsx";

/** Says that the session is over. The page stays as it is: an open key that is shown once must not be lost. */
export function SignedOutBanner() {
  const { sessionEnded, location } = useServices();
  const ended = useCell(sessionEnded);
  const path = useCell(location.path);
  return (
    <div role="status" className="banner-place">
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
