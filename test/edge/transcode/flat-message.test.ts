import { create, fromJson, toJson } from "@bufbuild/protobuf";
import { StringValueSchema } from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { expect, test } from "vitest";
import { KeySchema } from "#gen/keyrun/v1/key_pb.ts";
import { RunAppRequestSchema, RunAppResponseSchema } from "#gen/keyrun/v1/run_service_pb.ts";
import { flatMessageOf } from "#src/edge/transcode/flat-message.ts";

const text = fc.string({ unit: "grapheme" });

test("JSON is read as Protobuf-ES reads it, under either name, with null and absence apart from an empty string", () => {
  const flat = flatMessageOf(RunAppRequestSchema)!;
  const value = fc.option(text);
  const json = fc.oneof(
    fc.record({ appId: value, text: value }, { requiredKeys: [] }),
    fc.record({ app_id: value, text: value }, { requiredKeys: [] }),
  );
  fc.assert(
    fc.property(json, (each) => {
      expect(flat.read({ ...each })).toEqual(fromJson(RunAppRequestSchema, { ...each }));
    }),
  );
});

test("a message is written as Protobuf-ES writes it, fields at their default and fields that are not set", () => {
  const request = fc.record({ appId: text, text }, { requiredKeys: [] });
  const response = fc.record({ runId: text, appId: text, text }, { requiredKeys: [] });
  fc.assert(
    fc.property(request, response, (one, other) => {
      for (const [schema, message] of [
        [RunAppRequestSchema, create(RunAppRequestSchema, one)],
        [RunAppResponseSchema, create(RunAppResponseSchema, other)],
      ] as const) {
        const expected = JSON.stringify(toJson(schema, message, { alwaysEmitImplicit: true }));
        expect(JSON.stringify(flatMessageOf(schema)?.write(message))).toBe(expected);
      }
    }),
  );
});

test("what is no flat message is left to Protobuf-ES: another message, another value, another kind of field", () => {
  const flat = flatMessageOf(RunAppResponseSchema)!;
  expect(flat.write(create(RunAppRequestSchema))).toBeUndefined();
  expect(flat.write(Object.assign(create(RunAppResponseSchema), { text: 1 }))).toBeUndefined();
  expect(flat.write(Object.assign(create(RunAppResponseSchema), { text: undefined }))).toBeUndefined();
  expect(() => flat.read({ other: "x" })).toThrow(/other is no field/);
  expect(flatMessageOf(KeySchema)).toBeUndefined();
  expect(flatMessageOf(StringValueSchema)).toBeUndefined();
});
