/**
 * The rules of the compliance service in gapic-showcase, with which Google tests the REST clients
 * that it generates: each request that such a client makes of a message is read as that message.
 */
import { create, fromJson, type JsonObject, type JsonValue, toBinary, toJson } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { edgeOf, ruleOf, testType, testTypes } from "./transcoding.ts";

const repeat = { input: "Repeat", output: "Repeat" };
const trailing = "{info.f_string=first/*}/{info.f_child.f_string=second/**}:pathtrailingresource";
const resource = "{info.f_string=first/*}/{info.f_child.f_string=second/*}/bool/{info.f_bool}:pathresource";
const childFirst =
  "{info.f_child.f_string=first/*}/{info.f_string=second/*}/bool/{info.f_bool}:childfirstpathresource";
const simple = "{info.f_string}/{info.f_int32}/{info.f_double}/{info.f_bool}/{info.f_kingdom}:simplepath";

const rules = {
  body: "POST /v1beta1/repeat:body *",
  bodyInfo: "POST /v1beta1/repeat:bodyinfo info",
  query: "GET /v1beta1/repeat:query",
  simplePath: `GET /v1beta1/repeat/${simple}`,
  pathResource: `GET /v1beta1/repeat/${resource}`,
  childFirst: `GET /v1beta1/repeat/${childFirst}`,
  trailingResource: `GET /v1beta1/repeat/${trailing}`,
  bodyPut: "PUT /v1beta1/repeat:bodyput *",
  bodyPatch: "PATCH /v1beta1/repeat:bodypatch *",
};
type RuleName = keyof typeof rules;

const { childFirst: additional, pathResource, ...others } = rules;
const edge = edgeOf(...Object.values(others).map((rule) => ({ ...repeat, rule: ruleOf(rule) })), {
  ...repeat,
  rule: { ...ruleOf(pathResource), additionalBindings: [ruleOf(additional)] },
});

const notInPath: RuleName[] = ["body", "bodyPut", "bodyPatch", "query"];
const wherever: RuleName[] = [...notInPath, "simplePath", "bodyInfo"];
const anywhere: RuleName[] = [...wherever, "trailingResource"];

const everyType = {
  fInt32: -3,
  fSint32: -5,
  fSfixed32: -7,
  fUint32: 11,
  fFixed32: 13,
  fInt64: "-17",
  fSint64: "-19",
  fSfixed64: "-23",
  fUint64: "29",
  fFixed64: "31",
  fDouble: -37e5,
  fFloat: -41,
  fBool: true,
  fBytes: "+/8=",
  fKingdom: "GENRE_DRAMA",
};
const optional = { pString: "", pInt32: -43, pDouble: -47.53, pBool: false, pKingdom: "GENRE_POETRY" };
const extreme = {
  fInt32: 2147483647,
  fSint32: -2147483648,
  fUint32: 4294967295,
  fInt64: "9223372036854775807",
  fSint64: "-9223372036854775808",
  fUint64: "18446744073709551615",
  fDouble: Number.MAX_VALUE,
  fFloat: 3.4028234663852886e38,
};

const cases: [what: string, info: JsonObject, by: readonly RuleName[]][] = [
  ["every type", { fString: "word", ...everyType, ...optional, fChild: { fString: "second/a" } }, wherever],
  ["every type, none optional", { fString: "word", ...everyType, fChild: { pString: "" } }, wherever],
  [
    "zero values that are set",
    { fString: "word", pString: "", pInt32: 0, pDouble: 0, pBool: false },
    wherever,
  ],
  ["zero values alone", { pString: "", pInt32: 0, pBool: false }, notInPath],
  ["extreme values", { fString: "word", ...extreme }, wherever],
  ["text beyond ASCII", { fString: '☺ → ← "\\/\b\f\r\n\t\u1234' }, notInPath],
  ["a space", { fString: "two words" }, wherever],
  ["quotes", { fString: 'a "word"' }, wherever],
  ["a percent sign", { fString: "100%" }, wherever],
  ["what stands for something in a query", { fString: "a=b&c+d#e?f" }, wherever],
  ["a slash", { fString: "first/a/second/b", fChild: { fString: "second/c/bool/true" } }, notInPath],
  ["two resources", { fString: "first/a", fBool: true, fChild: { fString: "second/b" } }, ["pathResource"]],
  [
    "the same, by the additional binding",
    { fString: "second/a", fChild: { fString: "first/b" } },
    ["childFirst"],
  ],
  [
    "a resource of several segments",
    { fString: "first/a", fChild: { fString: "second/b/c:d" } },
    anywhere.slice(-1),
  ],
  ["a resource that ends", { fString: "first/a", fChild: { fString: "second/" } }, ["trailingResource"]],
];

test.each(cases.flatMap(([what, info, by]) => by.map((name) => [what, name, info] as const)))(
  "%s is read as it was sent by the rule %s",
  (_, name, info) => {
    const top = {
      name: "n",
      fInt32: -10,
      fInt64: "-110",
      fDouble: -54e4,
      pInt32: 0,
      pInt64: "-477",
      pDouble: 0,
    };
    const type = testType("Repeat");
    const message = fromJson(type, { ...top, info }, { registry: testTypes });
    const [line, body] = requestBy(rules[name], toJson(type, message) as JsonObject);
    const [method = "", target = ""] = line.split(" ");
    const match = edge.transcoder.match(method, target);
    expect(match.kind === "found" && match.route.binding.template.source).toBe(rules[name].split(" ")[1]);
    const sent = edge.send(line, body);
    expect(sent).toMatchObject({ kind: "message" });
    expect(sent.message && toBinary(type, sent.message)).toEqual(toBinary(type, message));
  },
);

test("an enum value that the server does not know comes back as it was sent", () => {
  const { transcoder, send } = edgeOf({
    input: "Plain",
    output: "Plain",
    rule: ruleOf("POST /v1beta1/compliance/enum"),
  });
  const { body } = transcoder.encodeResponse(
    transcoder.bindings[0]!,
    create(testType("Plain"), { genre: 99 } as never),
  );
  expect(JSON.parse(String(body))).toMatchObject({ genre: 99 });
  expect(send("POST /v1beta1/compliance/enum?genre=99").json).toEqual({ genre: 99 });
});

/** The request line and the body that a client makes of a message's JSON. */
function requestBy(rule: string, json: JsonObject): [line: string, body: JsonValue | undefined] {
  const { pattern, body } = ruleOf(rule);
  const [method = "", template = ""] = rule.split(" ");
  const rest = structuredClone(json);
  const path = template.replace(/\{([^=}]*)(=[^}]*)?\}/g, (_, fieldPath: string, segments?: string) => {
    const text = String(takeFrom(rest, fieldPath));
    return segments === undefined
      ? encodeURIComponent(text)
      : text.split("/").map(encodeURIComponent).join("/");
  });
  expect(pattern.case).toBe(method.toLowerCase());
  if (body === "*") return [`${method} ${path}`, rest];
  const sent = body === "" ? undefined : rest[body];
  if (body !== "") delete rest[body];
  return [`${method} ${path}?${queryOf(rest)}`, sent];
}

/** Takes the value out of the JSON. One at its default is not there. */
function takeFrom(json: JsonObject, fieldPath: string): JsonValue {
  const names = fieldPath
    .split(".")
    .map((name) => name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()));
  let at = json;
  for (const name of names.slice(0, -1)) {
    at[name] ??= {};
    at = at[name] as JsonObject;
  }
  const leaf = names.at(-1)!;
  const value = at[leaf];
  delete at[leaf];
  return value ?? ({ fBool: false, fKingdom: 0, fString: "" }[leaf] as JsonValue | undefined) ?? 0;
}

function queryOf(json: JsonObject, prefix = ""): string {
  const pairs = Object.entries(json).map(([name, value]) => {
    if (typeof value === "object" && value !== null) return queryOf(value as JsonObject, `${prefix}${name}.`);
    return `${prefix}${name}=${encodeURIComponent(String(value))}`;
  });
  return pairs.filter((pair) => pair !== "").join("&");
}
