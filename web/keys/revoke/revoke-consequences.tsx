import type { Key } from "../../api/messages.ts";
import { bounds } from "../../bounds.ts";
import { Icon } from "../../controls/icon.tsx";
import { useServices } from "../../services.tsx";
import { Ago } from "../ago.tsx";
import { ExactTime } from "../exact-time.tsx";

/** What revoking the key means, with a warning if the key was used a short while ago. */
export function RevokeConsequences({ apiKey }: { apiKey: Key }) {
  const { ticker } = useServices();
  const lastUse = apiKey.lastUseTime;
  const recent = lastUse !== undefined && ticker.unixMs() - Date.parse(lastUse) < bounds.recentUseMs;
  return (
    <div id="revoke-key-text">
      <p>
        <code>{apiKey.redactedValue}</code> stops working <strong>immediately and permanently</strong>.
        Anything still using it gets 401. This can’t be undone.
      </p>
      {recent && (
        <p className="warning">
          <Icon name="warning" />
          <span>
            Last used <Ago time={lastUse} /> · <ExactTime time={lastUse} />
          </span>
        </p>
      )}
    </div>
  );
}
