import { Frame } from "./frame/frame.tsx";
import { KeysPlaceholder } from "./keys/keys-placeholder.tsx";

/**
 * What the document shows of a team's keys before its script runs. The build writes it into
 * `index.html`. The script puts the same in its place, and then adds what is known.
 */
export function FirstView() {
  return (
    <div id="first-view" inert>
      <Frame session={undefined} team={undefined} page="api-keys" onGo={() => {}} onSignedOut={() => {}}>
        <KeysPlaceholder />
      </Frame>
    </div>
  );
}
