import type { DescService, JsonObject } from "@bufbuild/protobuf";
import { Validator } from "@seriousme/openapi-schema-validator";
import { expect, test } from "vitest";
import { createOpenApi, type MethodFacts } from "#tools/openapi/openapi.ts";
import { bufRegistry } from "../../harness/buf-image.ts";

const library = `
syntax = "proto3";
package library.v1;
import "google/api/annotations.proto";
import "google/api/httpbody.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/field_mask.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/any.proto";
import "google/protobuf/empty.proto";

service Library {
  rpc UpdateBook(UpdateBookRequest) returns (Book) {
    option (google.api.http) = { patch: "/v1/books/{book.id}" body: "book" };
  }
  rpc ListBooks(ListBooksRequest) returns (ListBooksResponse) {
    option (google.api.http) = {
      get: "/v1/shelves/{shelf=*}/books" response_body: "books"
      additional_bindings { get: "/v1/books" }
    };
  }
  rpc Print(Book) returns (google.api.HttpBody) {
    option (google.api.http) = { post: "/v1/books/{id}:print" body: "*" };
  }
  rpc Watch(Filter) returns (stream Book) {
    option (google.api.http) = {
      get: "/v1/watch"
      additional_bindings { get: "/v1/watch/pages" response_body: "pages" }
    };
  }
  rpc Erase(google.protobuf.Empty) returns (google.protobuf.Empty) {}
}
message UpdateBookRequest { Book book = 1; google.protobuf.FieldMask update_mask = 2; bool dry_run = 3; }
message ListBooksRequest {
  string shelf = 1; int32 page_size = 2; Filter filter = 3; repeated Genre genres = 4; map<string, string> labels = 5;
}
message Filter { string author_name = 1; google.protobuf.Timestamp since = 2; Filter and = 3; repeated Book like = 4; }
message ListBooksResponse { repeated Book books = 1; string next_page_token = 2; }
enum Genre { GENRE_UNSPECIFIED = 0; GENRE_NOVEL = 1; }
message Book {
  string id = 1;
  optional string subtitle = 2;
  Genre genre = 3;
  int64 copies = 4;
  uint64 reads = 5;
  uint32 pages = 6;
  double weight = 7;
  bytes cover = 8;
  bool lent = 9;
  repeated string tags = 10;
  map<int32, Book> sequels = 11;
  map<bool, Genre> flags = 12;
  oneof source { string isbn = 13; Book copy_of = 14; }
  google.protobuf.Timestamp printed = 15;
  google.protobuf.Duration reading = 16;
  google.protobuf.Int64Value price = 17;
  google.protobuf.Struct extra = 18;
  google.protobuf.Any detail = 19;
  google.protobuf.Value free = 20;
  google.protobuf.ListValue rows = 21;
  google.protobuf.NullValue nothing = 22;
}
`;

const facts: MethodFacts = { parameters: [], successHeaders: {}, refusals: {}, security: [] };
const methods = {
  "library.v1.Library.UpdateBook": facts,
  "library.v1.Library.ListBooks": facts,
  "library.v1.Library.Print": facts,
  "library.v1.Library.Watch": facts,
};
const words = {
  "library.v1.Library.ListBooks": "Lists the books of a shelf. By title.",
  "library.v1.Book": "A book.",
  "library.v1.Book.id": 'Required. The id. Example: "emma".',
  "library.v1.Book.pages": "Output only. How many pages. Example: 320.",
  "library.v1.Book.source": "Required. Where it comes from.",
  "library.v1.ListBooksRequest.page_size": "Required. How many.",
  // A required field of the filter, which itself is optional.
  "library.v1.Filter.author_name": "Required. Whose books.",
};

async function documentOf(services: readonly DescService[]): Promise<JsonObject> {
  return createOpenApi({
    services,
    info: { title: "Library", version: "1", description: "" },
    serverUrl: "/",
    words,
    fields: { "library.v1.Book.id": { maxLength: 63 } },
    methods,
    components: {},
  });
}

async function serviceOf(source: string, name: string): Promise<DescService> {
  const service = (await bufRegistry(source)).getService(name);
  if (!service) throw new Error(`no ${name}`);
  return service;
}

const service = await serviceOf(library, "library.v1.Library");
const document = await documentOf([service]);

/** Returns the value at these keys. */
function at(...keys: string[]): unknown {
  return keys.reduce<unknown>((value, key) => (value as Record<string, unknown>)[key], document);
}

const bookOf = (name: string) => at("components", "schemas", name);
const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` });

test("a document from many kinds of rules and fields is valid OpenAPI 3.1", async () => {
  expect(await new Validator().validate(structuredClone(document))).toEqual({ valid: true });
});

test("every rule is one operation under its path, and a method without a rule has none", () => {
  const paths = at("paths") as Record<string, Record<string, { operationId: string }>>;
  const operations = Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, { operationId }]) => `${method} ${path} ${operationId}`),
  );
  expect(operations).toEqual([
    "patch /v1/books/{book.id} Library_UpdateBook",
    "get /v1/shelves/{shelf}/books Library_ListBooks",
    "get /v1/books Library_ListBooks_2",
    "post /v1/books/{id}:print Library_Print",
    "get /v1/watch Library_Watch",
    "get /v1/watch/pages Library_Watch_2",
  ]);
  expect(at("paths", "/v1/books", "get")).toMatchObject({
    summary: "Lists the books of a shelf.",
    description: "Lists the books of a shelf. By title.",
  });
});

test("fields that neither path nor body sets are parameters: plain values, dotted if nested, once if recursive", () => {
  const parameters = (path: string, method: string) =>
    (at("paths", path, method, "parameters") as { name: string; in: string; required: boolean }[]).map(
      (each) => `${each.in} ${each.name}${each.required ? " required" : ""}`,
    );
  expect(parameters("/v1/shelves/{shelf}/books", "get")).toEqual([
    "path shelf required",
    "query pageSize required",
    "query filter.authorName",
    "query filter.since",
    "query genres",
  ]);
  expect(parameters("/v1/books", "get")[0]).toBe("query shelf");
  expect(parameters("/v1/books/{book.id}", "patch")).toEqual([
    "path book.id required",
    "query updateMask",
    "query dryRun",
  ]);
  expect(parameters("/v1/books/{id}:print", "post")).toEqual(["path id required"]);
});

test("bodies are what the rule names, in requests and responses, and raw bytes have any type", () => {
  const json = (schema: unknown) => ({ content: { "application/json": { schema } } });
  expect(at("paths", "/v1/books/{book.id}", "patch", "requestBody")).toMatchObject(
    json(ref("library.v1.Book-input")),
  );
  expect(at("paths", "/v1/books/{book.id}", "patch", "responses", "200")).toMatchObject(
    json(ref("library.v1.Book")),
  );
  expect(at("paths", "/v1/books", "get")).not.toHaveProperty("requestBody");
  expect(at("paths", "/v1/shelves/{shelf}/books", "get", "responses", "200")).toMatchObject(
    json({ type: "array", items: ref("library.v1.Book") }),
  );
  expect(at("paths", "/v1/books/{id}:print", "post", "responses", "200")).toMatchObject({
    content: { "*/*": {} },
  });
  const whole = at(
    "paths",
    "/v1/books/{id}:print",
    "post",
    "requestBody",
    "content",
    "application/json",
    "schema",
  );
  expect(whole).toMatchObject({ description: "A book.", additionalProperties: false });
  expect(Object.keys((whole as { properties: object }).properties)).not.toContain("id");
});

test("a stream has both of its forms, each with the schema of one event or line, of the end and of a fault", () => {
  const responseOf = (path: string) => at("paths", path, "get", "responses", "200");
  const fault = { type: "object", required: ["error"] };
  const lines = (message: object) => ({
    schema: { anyOf: [message, { required: ["end"] }, { required: ["ping"] }, fault] },
  });
  const forms = (message: object) => ({
    content: {
      "text/event-stream": { schema: { anyOf: [message, { maxProperties: 0 }, fault] } },
      "application/x-ndjson": lines(message),
      "application/ndjson": lines(message),
      "application/jsonl": lines(message),
    },
  });
  expect(responseOf("/v1/watch")).toMatchObject(forms(ref("library.v1.Book")));
  expect(responseOf("/v1/watch/pages")).toMatchObject(forms({ type: "integer", format: "uint32" }));
});

test("each kind of field has its ProtoJSON form", () => {
  const { properties } = bookOf("library.v1.Book") as { properties: Record<string, unknown> };
  expect(properties).toEqual({
    id: { type: "string", maxLength: 63, description: words["library.v1.Book.id"], examples: ["emma"] },
    subtitle: { type: "string" },
    genre: ref("library.v1.Genre"),
    copies: { type: "string", format: "int64", pattern: "^-?[0-9]{1,19}$" },
    reads: { type: "string", format: "uint64", pattern: "^[0-9]{1,20}$" },
    pages: {
      type: "integer",
      format: "uint32",
      minimum: 0,
      maximum: 4294967295,
      description: words["library.v1.Book.pages"],
      examples: [320],
    },
    weight: {
      oneOf: [
        { type: "number", format: "double" },
        { type: "string", enum: ["NaN", "Infinity", "-Infinity"] },
      ],
    },
    cover: { type: "string", contentEncoding: "base64" },
    lent: { type: "boolean" },
    tags: { type: "array", items: { type: "string" } },
    sequels: {
      type: "object",
      propertyNames: { pattern: "^-?[0-9]{1,20}$" },
      additionalProperties: ref("library.v1.Book"),
    },
    flags: {
      type: "object",
      propertyNames: { enum: ["true", "false"] },
      additionalProperties: ref("library.v1.Genre"),
    },
    isbn: { type: "string" },
    copyOf: ref("library.v1.Book"),
    printed: { type: "string", format: "date-time" },
    reading: { type: "string", pattern: "^-?[0-9]{1,12}(\\.[0-9]{1,9})?s$" },
    price: { type: "string", format: "int64", pattern: "^-?[0-9]{1,19}$" },
    extra: { type: "object" },
    detail: { type: "object", properties: { "@type": { type: "string" } }, required: ["@type"] },
    free: {},
    rows: { type: "array" },
    nothing: { type: "null" },
  });
  expect(bookOf("library.v1.Genre")).toEqual({
    type: "string",
    description: "One of `GENRE_UNSPECIFIED`, `GENRE_NOVEL`. More may be added: accept any text.",
    "x-extensible-enum": ["GENRE_UNSPECIFIED", "GENRE_NOVEL"],
  });
});

test("a request's schema is closed and requires what the comments require; a response's requires what is always sent", () => {
  const oneof = { oneOf: [{ required: ["isbn"] }, { required: ["copyOf"] }] };
  const input = bookOf("library.v1.Book-input");
  expect(input).toMatchObject({ required: ["id"], additionalProperties: false, ...oneof });
  expect(input).toMatchObject({
    properties: { pages: { readOnly: true }, copyOf: ref("library.v1.Book-input") },
  });
  const output = bookOf("library.v1.Book") as { required: string[] };
  expect(output).not.toHaveProperty("additionalProperties");
  expect(output.required).toEqual([
    ...[
      "id",
      "genre",
      "copies",
      "reads",
      "pages",
      "weight",
      "cover",
      "lent",
      "tags",
      "sequels",
      "flags",
      "nothing",
    ],
  ]);
});

test("a oneof that is optional has at most one member", async () => {
  const { "library.v1.Book.source": _, ...fewer } = words;
  const { components } = createOpenApi({
    services: [service],
    info: { title: "", version: "", description: "" },
    serverUrl: "/",
    words: fewer,
    fields: {},
    methods,
    components: {},
  });
  const members = [{ required: ["isbn"] }, { required: ["copyOf"] }];
  expect(components).toMatchObject({
    schemas: { "library.v1.Book": { oneOf: [...members, { not: { anyOf: members } }] } },
  });
});

test.each([
  ["a variable over several segments", 'get: "/v1/{name=books/*}"', /each variable must be one segment/],
  ["a star outside of a variable", 'get: "/v1/*/books"', /each variable must be one segment/],
  ["a method of any name", 'custom { kind: "LIST" path: "/v1/books" }', /no word for the method/],
])("start is refused, naming the rule, for %s", async (_, rule, message) => {
  const odd = await serviceOf(
    `syntax = "proto3"; package odd.v1; import "google/api/annotations.proto";
     service Odd { rpc Get(Name) returns (Name) { option (google.api.http) = { ${rule} }; } }
     message Name { string name = 1; }`,
    "odd.v1.Odd",
  );
  await expect(documentOf([odd])).rejects.toThrow(message);
  await expect(documentOf([odd])).rejects.toThrow("odd.v1.Odd.Get");
});

test("start is refused for a method with a rule and without facts", async () => {
  const odd = await serviceOf(
    `syntax = "proto3"; package odd.v1; import "google/api/annotations.proto";
     service Odd { rpc Get(Name) returns (Name) { option (google.api.http) = { get: "/v1/{name}" }; } }
     message Name { string name = 1; }`,
    "odd.v1.Odd",
  );
  await expect(documentOf([odd])).rejects.toThrow("odd.v1.Odd.Get has an HTTP rule");
});
