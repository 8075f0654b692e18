import { create, toJson } from "@bufbuild/protobuf";
import { StringValueSchema } from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { expect, test } from "vitest";
import { flatWriterOf } from "../src/flat-message.ts";
import { testType } from "./transcoding.ts";

const note = testType("Note");
const noteReply = testType("NoteReply");
const text = fc.string({ unit: "grapheme" });

test("a message is written as Protobuf-ES writes it, with fields at their default and fields that are not set", () => {
  const request = fc.record({ noteId: text, text }, { requiredKeys: [] });
  const response = fc.record({ replyId: text, noteId: text, text }, { requiredKeys: [] });
  fc.assert(
    fc.property(request, response, (one, other) => {
      for (const [schema, message] of [
        [note, create(note, one)],
        [noteReply, create(noteReply, other)],
      ] as const) {
        const expected = JSON.stringify(toJson(schema, message, { alwaysEmitImplicit: true }));
        expect(JSON.stringify(flatWriterOf(schema)?.(message))).toBe(expected);
      }
    }),
  );
});

test("anything but a flat message is left to Protobuf-ES: another message, another value, another kind of field", () => {
  const flat = flatWriterOf(noteReply)!;
  expect(flat(create(note))).toBeUndefined();
  expect(flat(Object.assign(create(noteReply), { text: 1 }))).toBeUndefined();
  expect(flat(Object.assign(create(noteReply), { text: undefined }))).toBeUndefined();
  expect(flat(create(noteReply, { facts: { kind: { case: "boolValue", value: true } } }))).toBeUndefined();
  expect(flatWriterOf(testType("Book"))).toBeUndefined();
  expect(flatWriterOf(StringValueSchema)).toBeUndefined();
});
