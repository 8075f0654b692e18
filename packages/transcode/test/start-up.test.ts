import { expect, test } from "vitest";
import { bindingsOf } from "../src/binding.ts";
import { createTranscoder } from "../src/transcoder.ts";
import { edgeOf, ruleOf, serviceOf, type TestRule } from "./transcoding.ts";

const start =
  (...rules: (string | TestRule)[]) =>
  () =>
    edgeOf(...rules);

test.each([
  ["no leading slash", "v1/a", "must start with a slash"],
  ["a trailing slash", "/v1/a/", "trailing slash"],
  ["only a slash", "/", "empty segment"],
  ["an empty segment", "/v1//a", "empty segment"],
  ["a question mark", "/v1/a?b", '"a?b"'],
  ["a star beside text", "/v1/bar*", '"bar*"'],
  ["three stars", "/v1/***", '"***"'],
  ["`**` before the last segment", "/foo/**/bar", "`**` before its last segment"],
  ["`**` before the last segment, in a variable", "/foo/{name=**}/bar", "`**` before its last segment"],
  ["nested variables", "/v1/{name={request_id}}", "nested"],
  ["a brace that does not close", "/v1/{name", "do not pair"],
  ["a brace that does not open", "/v1/name}", "do not pair"],
  ["text beside a variable", "/v1/a{name}", '"a{name}"'],
  ["two variables in a segment", "/v1/{name}{request_id}", "beside the variable"],
  ["the same variable twice", "/v1/{name}/b/{name}", '"name" twice'],
  ["a variable that begins with a digit", "/v1/{1}", '"1"'],
  ["a variable with a dash", "/v1/{a-}", '"a-"'],
  ["a variable without a name", "/v1/{=a}", '""'],
  ["a verb before the end", "/foo/bar:baz/x", '"bar:baz"'],
  ["two verbs", "/foo:bar:baz", '"bar:baz"'],
  ["an empty verb", "/foo:", "empty verb"],
  ["a variable of no segments", "/v1/{name=}", "empty segment"],
  ["an escape that can't be decoded", "/v1/%zz", '"%zz"'],
  ["a literal that is not ASCII", "/v1/é", '"é"'],
])("a template with %s is refused, with the names of rule and method", (_, path, words) => {
  const rule: TestRule = { rule: { pattern: { case: "get", value: path } } };
  expect(start(rule)).toThrow(words);
  expect(start(rule)).toThrow(`GET ${path} (transcode.test.Library.Call0)`);
});

test("white space in a template is refused", () => {
  expect(start({ rule: { pattern: { case: "get", value: "/v1/a b" } } })).toThrow('"a b"');
});

test.each([
  ["GET /v1/{nope}", '"nope", which is no field of transcode.test.BookRequest'],
  ["GET /v1/{book.nope}", '"book.nope", which is no field'],
  ["GET /v1/{name.nope}", '"name.nope", which is no field'],
  ["GET /v1/{requestId}", '"requestId", which is no field'],
  ["GET /v1/{books}", "repeated, a map or a message"],
  ["GET /v1/{book}", "repeated, a map or a message"],
  ["GET /v1/{book.labels}", "repeated, a map or a message"],
  ["GET /v1/{book.remark}", "repeated, a map or a message"],
  ["GET /v1/{books.name}", "is no field"],
  ["GET /v1/{book.print_time.seconds}", "is no field"],
  ["POST /v1/a nope", 'the body "nope", which is no field'],
  ["POST /v1/{name} name", '"name" by the path and by the body'],
  ["POST /v1/{file.content_type} file", "by the path and by the body"],
  ["GET /v1/{branch}/{depot}", "of which only one can be set"],
  ["GET /v1/a *", "GET must not have"],
  ["HEAD /v1/a *", "HEAD must not have"],
  ["head /v1/a", "upper case"],
])("the rule %s is refused: %s", (rule, words) => {
  expect(start(rule)).toThrow(words);
  expect(start(rule)).toThrow("transcode.test.Library.Call0");
});

test("a path may bind timestamps, wrappers, enums and nested fields", () => {
  const plain = { input: "Plain" };
  for (const path of [
    "timestamp",
    "duration",
    "field_mask",
    "int64_value",
    "genre",
    "sub_plain.sub_plain.bytes",
  ]) {
    expect(start({ ...plain, rule: ruleOf(`GET /v1/{${path}}`) })).not.toThrow();
  }
});

test("a response body that is not a field of the response is refused", () => {
  expect(start({ rule: { ...ruleOf("GET /v1/a"), responseBody: "nope" } })).toThrow(
    '"nope", which is no field',
  );
});

test("a rule without a path is refused", () => {
  expect(start({ rule: { body: "*" } })).toThrow("has no method");
});

test("additional bindings inside an additional binding are refused", () => {
  const inner = { ...ruleOf("GET /v1/b"), additionalBindings: [ruleOf("GET /v1/c")] };
  expect(start({ rule: { ...ruleOf("GET /v1/a"), additionalBindings: [inner] } })).toThrow("GET /v1/b");
});

test.each([{ clientStreaming: true }, { clientStreaming: true, serverStreaming: true }])(
  "a rule on a method whose caller sends a stream is refused: %o",
  (streaming) => {
    expect(start({ ...streaming, rule: ruleOf("POST /v1/a *") })).toThrow(/Call0\) is on a streaming method/);
  },
);

test("a rule on a server-streaming method is bound", () => {
  const { bindings } = edgeOf({
    serverStreaming: true,
    output: "Author",
    rule: ruleOf("POST /v1/a *"),
  }).transcoder;
  expect(bindings.map(({ method }) => method.methodKind)).toEqual(["server_streaming"]);
});

test.each([
  ["HEAD, which has no body", { rule: ruleOf("HEAD /v1/a") }],
  ["HEAD, which has no body", { rule: ruleOf("* /v1/a") }],
  ["google.api.HttpBody", { rule: ruleOf("GET /v1/a"), output: "google.api.HttpBody" }],
  ["google.api.HttpBody", { rule: { ...ruleOf("GET /v1/a"), responseBody: "file" } }],
  ['the key "error"', { rule: { ...ruleOf("GET /v1/a"), responseBody: "strings" }, output: "Rich" }],
  ['the key "error"', { rule: { ...ruleOf("GET /v1/a"), responseBody: "struct" }, output: "Rich" }],
])("a rule that streams is refused for %s", (words, rule: TestRule) => {
  expect(start({ ...rule, serverStreaming: true })).toThrow(words);
  expect(start(rule)).not.toThrow();
});

test.each([
  ["GET /v1/{name}", "GET /v1/{request_id}"],
  ["GET /v1/{name}", "GET /v1/*"],
  ["GET /v1/{name=shelves/*}", "GET /v1/shelves/{request_id}"],
  ["GET /v1/{name=**}:go", "GET /v1/**:go"],
  ["GET /v1/a%62c", "GET /v1/abc"],
  ["* /v1/a", "* /v1/a"],
])("two rules that match the same requests are refused, with both names: %s, %s", (one, other) => {
  const named = [`${one} (transcode.test.Library.Call0)`, `${other} (transcode.test.Library.Call1)`];
  for (const name of named) expect(start(one, other)).toThrow(name);
});

test("rules of two services with the same path are refused too", () => {
  const service = serviceOf({ rule: ruleOf("GET /v1/a") });
  expect(() => createTranscoder([service, service])).toThrow("Two rules");
});

test("a method without the annotation has no route", () => {
  const service = serviceOf({ rule: ruleOf("GET /v1/a") });
  const bare = service.methods.map((method) => ({
    ...method,
    proto: { ...method.proto, options: undefined },
  }));
  const stripped = { ...service, methods: bare } as unknown as typeof service;
  expect(bindingsOf(stripped)).toEqual([]);
});
