import { fromBinary } from "@bufbuild/protobuf";
import { anyUnpack } from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { expect, test } from "vitest";
import { ErrorInfoSchema } from "#gen/google/rpc/error_details_pb.ts";
import { StatusSchema } from "#gen/google/rpc/status_pb.ts";
import { statusOf } from "#src/http/refusal-response.ts";
import { fail } from "#src/refusal/refusal.ts";

function metadataOf(refusal: Parameters<typeof statusOf>[0]): Map<string, string> {
  const flat = statusOf(refusal);
  return new Map(flat.flatMap((name, at) => (at % 2 === 0 ? [[name, flat[at + 1] ?? ""] as const] : [])));
}

test("messages of any language arrive unchanged, in printable ASCII", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (problem) => {
      const words = metadataOf(fail("INVALID_ARGUMENT", { problem })).get("grpc-message") ?? "";
      expect(words).toMatch(/^[ -~]*$/);
      expect(decodeURIComponent(words)).toBe(problem);
    }),
  );
  expect(() => statusOf(fail("INVALID_ARGUMENT", { problem: "half a pair: \ud800" }))).not.toThrow();
});

test("the details are one google.rpc.Status with code, message and exactly one ErrorInfo", () => {
  const metadata = metadataOf(fail("APP_NOT_FOUND", { metadata: { app_id: "a" } }));
  const status = fromBinary(
    StatusSchema,
    Buffer.from(metadata.get("grpc-status-details-bin") ?? "", "base64"),
  );
  expect([metadata.get("grpc-status"), status.code]).toEqual(["5", 5]);
  expect(decodeURIComponent(metadata.get("grpc-message") ?? "")).toBe(status.message);
  expect(status.details.map((detail) => anyUnpack(detail, ErrorInfoSchema))).toMatchObject([
    { reason: "APP_NOT_FOUND", domain: "keyrun", metadata: { app_id: "a" } },
  ]);
  expect(metadata.has("x-should-retry")).toBe(false);
});

test("a refusal of an app that may have run says not to repeat it", () => {
  expect(metadataOf(fail("APP_TIMEOUT", { mayHaveRun: true })).get("x-should-retry")).toBe("false");
});
