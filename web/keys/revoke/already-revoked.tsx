import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { Key } from "#gen/keyrun/v1/key_pb.ts";
import { Ago } from "../../time/ago.tsx";
import { fullTime } from "../../time/relative-time.ts";

/** Says that someone was faster: the key is revoked, and since when. */
export function AlreadyRevoked({ apiKey }: { apiKey: Key }) {
  return (
    <p id="revoke-key-text" role="status">
      Revoked by <bdi>{apiKey.revokedBy}</bdi> {apiKey.revokeTime && <Ago time={apiKey.revokeTime} />}
      {apiKey.revokeTime && <span className="muted"> · {fullTime(timestampMs(apiKey.revokeTime))}</span>}
    </p>
  );
}
