import type { DescService, JsonObject } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { createOpenApi, type MethodFacts } from "#tools/openapi/openapi.ts";
import { bufRegistry } from "../../harness/buf-image.ts";

const facts: MethodFacts = { parameters: [], successHeaders: {}, refusals: {}, security: [] };

/** A service of one method that has the rule, and whose request has these fields. */
async function serviceOf(rule: string, fields = "string name = 1;"): Promise<DescService> {
  const source = `syntax = "proto3"; package odd.v1; import "google/api/annotations.proto";
    service Odd { rpc Get(Name) returns (Name) { option (google.api.http) = { ${rule} }; } }
    message Name { ${fields} }`;
  return (await bufRegistry(source)).getService("odd.v1.Odd") ?? expect.fail();
}

function documentOf(service: DescService, methods = { "odd.v1.Odd.Get": facts }): JsonObject {
  return createOpenApi({
    services: [service],
    info: { title: "Odd", version: "1", description: "" },
    serverUrl: "/",
    words: {},
    fields: {},
    methods,
    components: {},
  });
}

// What the generator makes of Keyrun's own rules and fields is in keyrun-openapi.test.ts.
test.each([
  ["a variable over several segments", 'get: "/v1/{name=books/*}"', /each variable must be one segment/],
  ["a star outside of a variable", 'get: "/v1/*/books"', /each variable must be one segment/],
  ["a body that is one field", 'post: "/v1/books" body: "name"', /must be its whole request/],
])("is refused, naming the method: %s", async (_, rule, message) => {
  const odd = await serviceOf(rule);
  expect(() => documentOf(odd)).toThrow(message);
  expect(() => documentOf(odd)).toThrow("odd.v1.Odd.Get");
});

test.each(["double name = 1;", "map<string, string> name = 1;"])(
  "is refused, naming the field: one of a kind that no REST method has had: %s",
  async (field) => {
    const odd = await serviceOf('post: "/v1/books" body: "*"', field);
    expect(() => documentOf(odd)).toThrow(/odd\.v1\.Name\.name is of a kind/);
  },
);

test("is refused: a method with a rule and without facts", async () => {
  const odd = await serviceOf('get: "/v1/{name}"');
  expect(() => documentOf(odd, {} as never)).toThrow("odd.v1.Odd.Get has an HTTP rule");
});
