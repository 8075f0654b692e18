import { create, toJson } from "@bufbuild/protobuf";
import { StringValueSchema } from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { expect, test } from "vitest";
import { KeySchema } from "#gen/keyrun/v1/key_pb.ts";
import { RunAppRequestSchema, RunAppResponseSchema } from "#gen/keyrun/v1/run_service_pb.ts";
import { flatWriterOf } from "#src/transcode/flat-message.ts";

const text = fc.string({ unit: "grapheme" });

test("a message is written as Protobuf-ES writes it, with fields at their default and fields that are not set", () => {
  const request = fc.record({ appId: text, text }, { requiredKeys: [] });
  const response = fc.record({ runId: text, appId: text, text }, { requiredKeys: [] });
  fc.assert(
    fc.property(request, response, (one, other) => {
      for (const [schema, message] of [
        [RunAppRequestSchema, create(RunAppRequestSchema, one)],
        [RunAppResponseSchema, create(RunAppResponseSchema, other)],
      ] as const) {
        const expected = JSON.stringify(toJson(schema, message, { alwaysEmitImplicit: true }));
        expect(JSON.stringify(flatWriterOf(schema)?.(message))).toBe(expected);
      }
    }),
  );
});

test("anything but a flat message is left to Protobuf-ES: another message, another value, another kind of field", () => {
  const flat = flatWriterOf(RunAppResponseSchema)!;
  expect(flat(create(RunAppRequestSchema))).toBeUndefined();
  expect(flat(Object.assign(create(RunAppResponseSchema), { text: 1 }))).toBeUndefined();
  expect(flat(Object.assign(create(RunAppResponseSchema), { text: undefined }))).toBeUndefined();
  expect(flatWriterOf(KeySchema)).toBeUndefined();
  expect(flatWriterOf(StringValueSchema)).toBeUndefined();
});
