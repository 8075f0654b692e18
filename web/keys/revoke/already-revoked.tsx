import type { Key } from "#gen/keyrun/v1/key_pb.ts";
import { Ago } from "../ago.tsx";
import { ExactTime } from "../exact-time.tsx";

/** Says that someone else has revoked the key, and when. */
export function AlreadyRevoked({ apiKey }: { apiKey: Key }) {
  return (
    <p id="revoke-key-text" role="status">
      Revoked by <bdi>{apiKey.revokedBy}</bdi> {apiKey.revokeTime && <Ago time={apiKey.revokeTime} />}
      {apiKey.revokeTime && (
        <span className="muted">
          {" · "}
          <ExactTime time={apiKey.revokeTime} />
        </span>
      )}
    </p>
  );
}
