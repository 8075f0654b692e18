import type { Key } from "../../api/messages.ts";
import { timeUntil } from "../../time/relative-time.ts";
import { Ago } from "../ago.tsx";
import { ExactTime } from "../exact-time.tsx";
import { isActive } from "../key-pages.ts";

/** What becomes of a key that was replaced. */
export function OldKeyNote({ apiKey }: { apiKey: Key }) {
  return (
    <p className="muted">
      The old key <code>{apiKey.redactedValue}</code>{" "}
      {isActive(apiKey) && apiKey.expireTime ? (
        <>
          works until <ExactTime time={apiKey.expireTime} />,{" "}
          <Ago time={apiKey.expireTime} inWords={timeUntil} />.
        </>
      ) : (
        "is revoked."
      )}
    </p>
  );
}
