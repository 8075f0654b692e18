import { expect, test } from "vitest";
import { KeyState } from "#gen/keyrun/v1/key_pb.ts";
import { keyMessage } from "#src/keys/key-message.ts";
import { keyRecordOf } from "../harness/store-records.ts";

test.each([
  [null, null, KeyState.ACTIVE],
  [5, null, KeyState.REVOKED],
  [null, 5, KeyState.EXPIRED],
  [5, 5, KeyState.REVOKED],
])(
  "a key that was revoked at %s and has expired at %s says its state",
  (revokeTimeMs, expiredTimeMs, state) => {
    expect(keyMessage(keyRecordOf({ id: "k", teamId: "demo", revokeTimeMs, expiredTimeMs })).state).toBe(
      state,
    );
  },
);
