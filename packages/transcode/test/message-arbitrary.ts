import {
  create,
  type DescField,
  type DescMessage,
  fromJson,
  type JsonValue,
  type Message,
  ScalarType,
} from "@bufbuild/protobuf";
import { anyPack, EmptySchema } from "@bufbuild/protobuf/wkt";
import fc from "fast-check";

/** Random messages of a type, at most three deep. Each field is set about half of the time. */
export function messageOf(desc: DescMessage, depth = 2): fc.Arbitrary<Message> {
  const known = knownTypeOf(desc);
  if (known !== undefined) return known;
  const members = desc.members.flatMap((member): [string, fc.Arbitrary<unknown>][] => {
    if (member.kind === "field")
      return isTooDeep(member, depth) ? [] : [[member.localName, fieldOf(member, depth)]];
    const cases = member.fields.filter((field) => !isTooDeep(field, depth));
    const one = cases.map((field) =>
      itemOf(field, depth, true).map((value) => ({ case: field.localName, value })),
    );
    return [[member.localName, fc.oneof(...one)]];
  });
  return fc.record(Object.fromEntries(members), { requiredKeys: [] }).map((init) => create(desc, init));
}

function isTooDeep(field: DescField, depth: number): boolean {
  return depth === 0 && field.message !== undefined && knownTypeOf(field.message) === undefined;
}

function fieldOf(field: DescField, depth: number): fc.Arbitrary<unknown> {
  if (field.fieldKind === "list") return fc.array(itemOf(field, depth, true), { maxLength: 3 });
  if (field.fieldKind === "map") {
    const keys = field.mapKey === ScalarType.STRING ? text : scalarOf(field.mapKey).map(String);
    return fc.dictionary(keys, itemOf(field, depth, true), { maxKeys: 3, noNullPrototype: true });
  }
  return itemOf(field, depth, false);
}

/** A singular field holds a wrapper as a plain value; lists, maps and oneofs hold messages. */
function itemOf(field: DescField, depth: number, inMember: boolean): fc.Arbitrary<unknown> {
  if (field.enum !== undefined) {
    const numbers = field.enum.values.map((value) => value.number);
    // An unknown number of an open enum has no name, and is kept as a number.
    return field.enum.typeName === "google.protobuf.NullValue"
      ? fc.constant(0)
      : fc.constantFrom(...numbers, 99);
  }
  if (field.message === undefined)
    return scalarOf(field.scalar!, "longAsString" in field && field.longAsString);
  const { message } = field;
  if (message.typeName === "google.protobuf.Struct") return fc.dictionary(text, jsonOf(1));
  if (isWrapperName(message.typeName)) {
    const value = scalarOf(message.fields[0]!.scalar!);
    return inMember ? value.map((each) => create(message, { value: each })) : value;
  }
  return messageOf(message, depth - 1);
}

const nanos = fc.oneof(fc.constantFrom(0, 1, 500_000_000, 120_000), fc.integer({ min: 0, max: 999_999_999 }));

/** Values as after a JSON round trip: JSON.stringify writes -0 as 0. */
const jsonOf = (maxDepth: number): fc.Arbitrary<JsonValue> =>
  fc.jsonValue({ maxDepth }).map((json) => JSON.parse(JSON.stringify(json)));

const text = fc.string({ unit: "grapheme", maxLength: 8 });

function isWrapperName(typeName: string): boolean {
  return /^google\.protobuf\.(?!List)\w+Value$/.test(typeName);
}

function knownTypeOf(desc: DescMessage): fc.Arbitrary<Message> | undefined {
  switch (desc.typeName) {
    case "google.protobuf.Timestamp":
      return fc
        .record({ seconds: fc.bigInt({ min: -62135596800n, max: 253402300799n }), nanos })
        .map((init) => create(desc, init));
    case "google.protobuf.Duration":
      return fc
        .record({ seconds: fc.bigInt({ min: 0n, max: 315576000000n }), nanos, minus: fc.boolean() })
        .map(({ seconds, nanos, minus }) =>
          create(desc, minus ? { seconds: -seconds, nanos: nanos === 0 ? 0 : -nanos } : { seconds, nanos }),
        );
    case "google.protobuf.FieldMask":
      return fc
        .array(fc.constantFrom("name", "author.full_name", "main_title"), { maxLength: 3 })
        .map((paths) => create(desc, { paths }));
    case "google.protobuf.Value":
      return jsonOf(2).map((json) => fromJson(desc, json));
    case "google.protobuf.ListValue":
      return fc.array(jsonOf(1), { maxLength: 3 }).map((values) => fromJson(desc, values));
    case "google.protobuf.Any":
      return fc.constant(anyPack(EmptySchema, create(EmptySchema)));
    default:
      return isWrapperName(desc.typeName)
        ? scalarOf(desc.fields[0]!.scalar!).map((value) => create(desc, { value }))
        : undefined;
  }
}

/** Without NaN, which equals nothing, and without -0, which JSON.stringify writes as 0. */
function scalarOf(scalar: ScalarType, longAsString = false): fc.Arbitrary<unknown> {
  const long = (value: bigint) => (longAsString ? String(value) : value);
  switch (scalar) {
    case ScalarType.STRING:
      return text;
    case ScalarType.BOOL:
      return fc.boolean();
    case ScalarType.BYTES:
      return fc.uint8Array({ maxLength: 8 });
    case ScalarType.DOUBLE:
      return fc.double({ noNaN: true }).map((value) => value + 0);
    case ScalarType.FLOAT:
      return fc.float({ noNaN: true }).map((value) => value + 0);
    case ScalarType.UINT32:
    case ScalarType.FIXED32:
      return fc.integer({ min: 0, max: 2 ** 32 - 1 });
    case ScalarType.INT32:
    case ScalarType.SINT32:
    case ScalarType.SFIXED32:
      return fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
    case ScalarType.UINT64:
    case ScalarType.FIXED64:
      return fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map(long);
    case ScalarType.INT64:
    case ScalarType.SINT64:
    case ScalarType.SFIXED64:
      return fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(long);
  }
}
