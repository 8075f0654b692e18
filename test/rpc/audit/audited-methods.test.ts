import type { DescMethod } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { checkAudited } from "#src/rpc/audit/audited-methods.ts";

/** KeyService with one method alone, which has this name. */
const serviceWith = (name: string) => {
  const method: DescMethod = { ...KeyService.method.listKeys, name };
  return { ...KeyService, methods: [method] };
};

test("a method that changes something and has no event stops the start, and names itself", () => {
  expect(() => checkAudited([serviceWith("PurgeKeys")])).toThrow("keyrun.v1.KeyService.PurgeKeys");
});

test("a method that only reads, as its verb says, needs no event, and neither does a run of an app", () => {
  expect(() => checkAudited([serviceWith("CountKeys"), RunService])).not.toThrow();
});
