import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { Key } from "#gen/keyrun/v1/key_pb.ts";
import { fullTime } from "../../time/relative-time.ts";
import { Ago } from "../ago.tsx";

/** Says that someone else has revoked the key, and when. */
export function AlreadyRevoked({ apiKey }: { apiKey: Key }) {
  return (
    <p id="revoke-key-text" role="status">
      Revoked by <bdi>{apiKey.revokedBy}</bdi> {apiKey.revokeTime && <Ago time={apiKey.revokeTime} />}
      {apiKey.revokeTime && <span className="muted"> · {fullTime(timestampMs(apiKey.revokeTime))}</span>}
    </p>
  );
}
