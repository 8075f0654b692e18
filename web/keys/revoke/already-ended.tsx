import type { Key } from "../../api/messages.ts";
import { Ago } from "../ago.tsx";
import { ExactTime } from "../exact-time.tsx";
import { endInWords } from "../key-words.ts";

/** Says that the key was ended elsewhere, or has expired, and when. */
export function AlreadyEnded({ apiKey }: { apiKey: Key }) {
  const time = apiKey.revokeTime ?? apiKey.expireTime;
  return (
    <p id="revoke-key-text" role="status">
      {endInWords(apiKey)}{" "}
      {apiKey.revokedBy && (
        <>
          by <bdi>{apiKey.revokedBy}</bdi>{" "}
        </>
      )}
      {time && <Ago time={time} />}
      {time && (
        <span className="muted">
          {" · "}
          <ExactTime time={time} />
        </span>
      )}
    </p>
  );
}
