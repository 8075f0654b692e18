import { readFileSync } from "node:fs";
import { fromBinary } from "@bufbuild/protobuf";
import { base64Decode } from "@bufbuild/protobuf/wire";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { cutDescriptors } from "../../web/session-descriptors-plugin.ts";

test("of a service the screen carries the methods that a session may call, and of a message what they carry", () => {
  const before = descriptorIn(generated("keyrun/v1/team_service_pb.ts"));
  const after = descriptorIn(cutDescriptors(generated("keyrun/v1/team_service_pb.ts")));
  expect(before.service[0]!.method.length).toBeGreaterThan(5);
  expect(after.service[0]!.method.map(({ name }) => name)).toEqual(["GetRateLimit"]);
  // Every message stays in its place, by which the generated code knows it.
  expect(after.messageType.map(({ name }) => name)).toEqual(before.messageType.map(({ name }) => name));
  const whole = after.messageType.filter(({ field }) => field.length > 0).map(({ name }) => name);
  expect(whole).toEqual(["GetRateLimitRequest", "GetRateLimitResponse"]);
});

test("what a refusal tells its reason by is whole", () => {
  const { messageType } = descriptorIn(cutDescriptors(generated("google/rpc/error_details_pb.ts")));
  const info = messageType.find(({ name }) => name === "ErrorInfo");
  expect(info?.field.map(({ name }) => name)).toEqual(["reason", "domain", "metadata"]);
  expect(info?.nestedType[0]?.field.length).toBe(2);
});

function generated(path: string): string {
  return readFileSync(new URL(`../../gen/${path}`, import.meta.url), "utf8");
}

function descriptorIn(code: string) {
  return fromBinary(FileDescriptorProtoSchema, base64Decode(/fileDesc\("([^"]+)"/.exec(code)![1]!));
}
