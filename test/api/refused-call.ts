import { ConnectError } from "@connectrpc/connect";
import { expect } from "vitest";
import { ErrorInfoSchema } from "#gen/google/rpc/error_details_pb.ts";

/** What a call that must fail was told. */
export async function refusedCall(call: Promise<unknown>) {
  const error = await call.then(
    () => expect.fail("the call succeeded"),
    (thrown) => ConnectError.from(thrown),
  );
  const [info, ...others] = error.findDetails(ErrorInfoSchema);
  expect([info?.domain ?? "keyrun", others]).toEqual(["keyrun", []]);
  return { code: error.code, reason: info?.reason, metadata: info?.metadata, words: error.rawMessage };
}
