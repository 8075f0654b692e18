import type { DescMessage, DescService, JsonObject } from "@bufbuild/protobuf";
import type { FileDescriptorProto, SourceCodeInfo_Location } from "@bufbuild/protobuf/wkt";
import { Validator } from "@seriousme/openapi-schema-validator";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { isResourceId } from "#src/base/fields.ts";
import { refusalJson, refusalResponse } from "#src/http/refusal-response.ts";
import { rateReportHeaders } from "#src/limit/rate-limit-headers.ts";
import { reasons, runReasons } from "#src/refusal/reasons.ts";
import { fail } from "#src/refusal/refusal.ts";
import { openApiFacts, writeOpenApi } from "#src/rest/openapi.ts";
import { createKeyrunOpenApi } from "#tools/openapi/keyrun-openapi.ts";
import { leakReportReasons } from "#tools/openapi/leak-report-answers.ts";
import { protoWords } from "#tools/openapi/proto-words.ts";
import { ownBufImage } from "../../harness/buf-image.ts";

const config = {
  planLimits: { free: 61, pro: 301, team: 601, enterprise: 3001 },
  bodyBytesMax: 4096,
  keyPrefix: "acme",
};
const services: DescService[] = [RunService, KeyService];
const written = writeOpenApi(openApiFacts(config, "1.2.3"));
const document = JSON.parse(written);
const validator = new Validator();
// Resolving changes objects in place, so none may be in two places.
const validated = await validator.validate(JSON.parse(JSON.stringify(document)));
/** The document with every reference resolved. */
const whole = validator.resolveRefs() as unknown as Document;
const run = whole.paths["/api/apps/{app_id}/run"]!.post!;
const stream = whole.paths["/api/apps/{app_id}/stream"]!.post!;

interface Document {
  readonly info: JsonObject;
  readonly servers: JsonObject[];
  readonly paths: Record<string, Record<string, Operation>>;
  readonly components: { readonly securitySchemes: JsonObject };
}
interface Operation {
  readonly parameters: {
    readonly name: string;
    readonly in: string;
    readonly description?: string;
    readonly schema: JsonSchema;
  }[];
  readonly requestBody: { readonly content: Record<string, { readonly schema: JsonSchema }> };
  readonly security: JsonObject[];
  readonly responses: Record<string, Answer>;
}
interface Answer {
  readonly headers: Record<string, { readonly required: boolean; readonly schema: JsonSchema }>;
  readonly content: Record<
    string,
    { readonly schema: JsonSchema; readonly examples: Record<string, { value: unknown }> }
  >;
}
type JsonSchema = Parameters<typeof z.fromJSONSchema>[0] & object;

function accepts(schema: JsonSchema, value: unknown): boolean {
  return z.fromJSONSchema(schema).safeParse(value).success;
}

test("the document is valid OpenAPI 3.1 and has exactly the paths of the HTTP rules", () => {
  expect(validated).toEqual({ valid: true });
  expect(document.openapi).toBe("3.1.0");
  expect(Object.entries(whole.paths).map(([path, item]) => [path, Object.keys(item)])).toEqual([
    ["/api/apps/{app_id}/run", ["post"]],
    ["/api/apps/{app_id}/stream", ["post"]],
    ["/api/runs/{run_id}", ["get"]],
    ["/api/runs", ["get"]],
    ["/api/runs/{run_id}/cancel", ["post"]],
    ["/api/keys/revoke-leaked", ["post"]],
  ]);
});

test("a linter finds a contact, no schema in parts, and a place for each property of an example", () => {
  const written = JSON.stringify(document);
  const components: Record<string, JsonObject> = document.components as never;
  const unused = Object.entries(components).flatMap(([kind, parts]) =>
    Object.keys(parts).filter((name) => !written.includes(`"#/components/${kind}/${name}"`)),
  );
  expect(unused).toEqual(["apiKey"]);
  expect(whole.info.contact).toEqual({ name: "The operator of this Keyrun" });
  expect(JSON.stringify(document)).not.toContain('"allOf"');
  const contents = Object.values(run.responses).flatMap(({ content }) => Object.values(content));
  const found = contents.flatMap(({ schema, examples = {} }) =>
    Object.values(examples).flatMap(({ value }) => unnamedIn(schema as Plain, value)),
  );
  expect(contents.length).toBeGreaterThan(15);
  expect(found).toEqual([]);
});

test("a caller may send any request id, because another is replaced, and the description says which", () => {
  const { schema, description } = run.parameters.find(({ name }) => name === "X-Request-Id")!;
  expect(schema).toEqual({ type: "string" });
  expect(description).toContain("`[A-Za-z0-9._-]{1,128}`");
});

interface Plain {
  readonly properties?: Readonly<Record<string, Plain>>;
  readonly items?: Plain;
  readonly additionalProperties?: unknown;
}

/** The properties of an example that its schema does not name, where it does not allow others. */
function unnamedIn(schema: Plain, value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap((one) => unnamedIn(schema.items ?? {}, one));
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => {
    const named = schema.properties?.[name];
    if (named !== undefined) return unnamedIn(named, inner);
    return schema.additionalProperties === true ? [] : [name];
  });
}

test.each([config, { ...config, bodyBytesMax: 1_048_576 }, { ...config, keyPrefix: "a0" }])(
  "the template, filled in, is what the generator writes for a configuration: %o",
  (each) => {
    const facts = openApiFacts(each, "1.2.3");
    expect(writeOpenApi(facts)).toBe(`${JSON.stringify(createKeyrunOpenApi({ services, facts }))}\n`);
    expect(writeOpenApi(facts)).not.toContain("{{");
  },
);

test("the document describes this configuration: version, address, key prefix, limits, body size", () => {
  expect(whole.info.version).toBe("1.2.3");
  expect(whole.servers).toEqual([{ url: "/" }]);
  expect(whole.components.securitySchemes.apiKey).toMatchObject({
    type: "http",
    scheme: "bearer",
    bearerFormat: "acme_<id>.<secret>",
  });
  expect(run.security).toEqual([{ apiKey: [] }]);
  expect(JSON.stringify(document)).toContain("free 61, pro 301, team 601, enterprise 3001");
  expect(JSON.stringify(run.responses[413])).toContain("larger than 4096 bytes");
});

test("the body's schema has text, an object `input` or both, and the longest text that it allows just fits the body's bound", () => {
  const { schema } = run.requestBody.content["application/json"]!;
  expect(run.requestBody).toMatchObject({ required: true });
  const input = { city: "Oslo", at: [1, { deep: null }] };
  const valid = [{ text: "" }, { text: "hello" }, { input: {} }, { input }, { text: "hello", input }];
  for (const value of valid) expect(accepts(schema, value), JSON.stringify(value)).toBe(true);
  const noInputs = [[], null, "a", 1].map((value) => ({ input: value }));
  const noTexts = [{}, { text: null }, { text: 1 }, [], null, { text: "a", app_id: "echo" }, { txt: "a" }];
  const invalid = [...noTexts, ...noInputs];
  for (const value of invalid) expect(accepts(schema, value), JSON.stringify(value)).toBe(false);
  const { maxLength = 0 } = (schema as { properties: { text: { maxLength?: number } } }).properties.text;
  const longest = { text: "a".repeat(maxLength) };
  expect(Buffer.byteLength(JSON.stringify(longest))).toBe(config.bodyBytesMax);
  expect(accepts(schema, longest)).toBe(true);
  expect(accepts(schema, { text: `${longest.text}a` })).toBe(false);
});

test("the app id in the path has the pattern of ids", () => {
  const { schema } = run.parameters.find(({ name }) => name === "app_id")!;
  const text = fc.oneof(fc.stringMatching(/^[a-z0-9-]{0,65}$/), fc.string());
  fc.assert(fc.property(text, (id) => accepts(schema, id) === isResourceId(id)));
});

test("a success always has run id and app id, and what the app gave of text and any JSON", () => {
  const { schema } = run.responses[200]!.content["application/json"]!;
  const answer = { runId: "run_1", appId: "echo" };
  const anyJson = [null, false, 1.5, "", [], { celsius: [21] }];
  for (const given of [{}, { text: "" }, ...anyJson.map((output) => ({ output }))])
    expect(accepts(schema, { ...answer, ...given }), JSON.stringify(given)).toBe(true);
  expect(accepts(schema, { ...answer, text: 1 })).toBe(false);
  for (const missing of Object.keys(answer))
    expect(accepts(schema, { ...answer, [missing]: undefined })).toBe(false);
});

test("a stream is asked for and refused as a run without a key, and has the headers that no cache or proxy keeps it", () => {
  expect(stream.parameters).toEqual(
    run.parameters.filter(({ name }) => name !== "Idempotency-Key" && name !== "Prefer"),
  );
  expect(stream.parameters.length).toBe(run.parameters.length - 2);
  expect(accepts(stream.requestBody.content["application/json"]!.schema, { text: "" })).toBe(true);
  expect(accepts(stream.requestBody.content["application/json"]!.schema, {})).toBe(false);
  const { 200: streamed, ...refused } = stream.responses;
  const { 200: answered, 202: _accepted, 409: _inUse, 422: _reused, ...others } = run.responses;
  expect(refused).toEqual(others);
  const {
    "Idempotency-Replayed": _,
    "Preference-Applied": _applied,
    Vary: _vary,
    ...headers
  } = answered!.headers;
  expect(streamed!.headers).toEqual({
    ...headers,
    "Cache-Control": expect.objectContaining({ required: true }),
    "X-Accel-Buffering": expect.objectContaining({ required: true }),
  });
});

test.each([
  ["text/event-stream", {}, { text: "" }],
  ["application/x-ndjson", { end: {} }, {}],
  ["application/ndjson", { end: {} }, {}],
  ["application/jsonl", { end: {} }, {}],
])(
  "as %s a stream has started, deltas, JSON, its end, signs of life, and every refusal that a run can have",
  (type, end, not) => {
    const { anyOf } = stream.responses[200]!.content[type]!.schema as { anyOf: JsonSchema[] };
    const [message, last, ...rest] = anyOf;
    const fault = rest.pop();
    expect(rest.map((ping) => accepts(ping, { ping: {} }))).toEqual(
      type === "text/event-stream" ? [] : [true],
    );
    const { properties } = message as { properties: Record<string, JsonSchema> };
    expect(Object.keys(properties)).toEqual(["started", "delta", "output"]);
    expect(accepts(properties.started!, { runId: "run_1", appId: "echo" })).toBe(true);
    expect(accepts(properties.started!, { runId: "run_1" })).toBe(false);
    expect([accepts(properties.delta!, { text: "" }), accepts(properties.delta!, {})]).toEqual([true, false]);
    for (const output of [null, 1, "a", [], { celsius: 21 }]) {
      expect(accepts(properties.output!, output)).toBe(true);
    }
    expect([accepts(last!, end), accepts(last!, not)]).toEqual([true, false]);
    for (const reason of runReasons) {
      expect(accepts(fault!, JSON.parse(refusalJson(fail(reason), "r-1"))), reason).toBe(true);
    }
    expect(accepts(fault!, { error: {} })).toBe(false);
  },
);

test("what refuses bytes behind a running request may say that it must not be repeated", () => {
  for (const status of [400, 408, 431]) {
    expect(run.responses[status]!.headers["X-Should-Retry"]).toMatchObject({ required: false });
  }
});

test("each status of a run is in the document, and no other", () => {
  const statuses = new Set(runReasons.map((reason) => String(reasons[reason].httpStatus)));
  expect(statuses.size).toBeGreaterThan(15);
  expect(Object.keys(run.responses).sort()).toEqual(["200", "202", ...statuses].sort());
});

describe.each(runReasons)("%s", (reason) => {
  const { httpStatus } = reasons[reason];
  const code = reason.toLowerCase();
  const answer = run.responses[httpStatus]!;
  const parserOnly = httpStatus === 408 || httpStatus === 431;

  test("as the server sends it fits its schema, as does the example, and a code of a later version", () => {
    const { schema, examples } = answer.content["application/json"]!;
    const metadata = { allow: "POST", bytes_max: "1", limit: "1", retry_after_s: "1", revoke_time: "now" };
    const refusal = fail(reason, { metadata, param: "text", retryAfterMs: 1 });
    const sent = refusalResponse(refusal, { requestId: "r-1", accept: undefined, rateHeaders: [] });
    const text = String(sent.body);
    expect(accepts(schema, JSON.parse(text))).toBe(true);
    expect(accepts(schema, examples[code]!.value)).toBe(true);
    expect(JSON.stringify(examples)).not.toContain("?");
    expect(accepts(schema, JSON.parse(text.replaceAll(`"${code}"`, '"no_such_code"')))).toBe(true);
    expect(JSON.stringify(schema)).toMatch(new RegExp(`"x-extensible-enum":\\[[^\\]]*"${code}"`));
    const unnamed = text.replace('"requestId"', '"requestid"');
    expect(accepts(schema, JSON.parse(unnamed))).toBe(false);
  });

  // Of two, generated clients make a union, of which no field can be read.
  test("is described in one media type", () => {
    expect(Object.keys(answer.content)).toEqual(["application/json"]);
  });

  test("has exactly the headers that the document lists", () => {
    const early = ["NOT_FOUND", "MALFORMED_REQUEST"].includes(reason) || parserOnly;
    const decision = { limit: 60, remaining: 3, resetUnixMs: 60_000, retryAfterMs: 6_120 };
    const accepted = reason !== "RATE_LIMIT_EXCEEDED";
    const state = {
      subject: "team",
      limit: 9,
      period: "month",
      used: 9,
      granted: 1,
      left: 0,
      startTimeMs: 0,
      resetTimeMs: 2_678_400_000,
    } as const;
    const exceeded =
      reason === "QUOTA_EXCEEDED"
        ? ({ kind: "exceeded", state, retryAfterMs: 86_400_000 } as const)
        : undefined;
    const report = {
      policy: "team",
      decision: { ...decision, accepted },
      quotas: [state],
      exceeded,
    } as const;
    const rateHeaders = early ? [] : rateReportHeaders(report, { unixMs: () => 1_000, monotonicMs: () => 0 });
    for (const mayHaveRun of [false, true]) {
      const refusal = fail(reason, { mayHaveRun, metadata: { allow: "POST" } });
      const { headers } = refusalResponse(refusal, { requestId: "r-1", accept: undefined, rateHeaders });
      const sent = new Map([["Date", "now"]]);
      for (let at = 0; at < headers.length; at += 2) sent.set(headers[at]!, headers[at + 1]!);
      sent.delete("Content-Type");
      for (const [name, value] of sent) {
        const { schema } = answer.headers[name] ?? {};
        expect(schema, name).toBeDefined();
        const isInteger = (schema as { type?: string }).type === "integer";
        expect(accepts(schema!, isInteger ? Number(value) : value), `${name}: ${value}`).toBe(true);
      }
      for (const [name, { required }] of Object.entries(answer.headers)) {
        if (required) expect([...sent.keys()]).toContain(name);
      }
    }
  });
});

describe("the report of a leaked key", () => {
  const report = whole.paths["/api/keys/revoke-leaked"]!.post!;
  const value = `acme_${"0".repeat(24)}.${"a".repeat(49)}`;

  test("needs no credential, and takes a whole value and nothing else", () => {
    expect(report.security).toEqual([]);
    expect(report.parameters.map(({ name }) => name)).toEqual(["X-Request-Id"]);
    const { schema } = report.requestBody.content["application/json"]!;
    expect(accepts(schema, { value })).toBe(true);
    for (const wrong of [{}, { value: "svc_a.b" }, { value, team: "a" }])
      expect(accepts(schema, wrong)).toBe(false);
    const answer = { redactedValue: "acme_123…abcd", revokeTime: "2026-05-04T12:00:00Z" };
    expect(accepts(report.responses[200]!.content["application/json"]!.schema, answer)).toBe(true);
  });

  test("has its own refusals, and the headers of the address's allowance", () => {
    const statuses = [200, 400, 404, 405, 408, 413, 415, 431, 500, 503, 507];
    expect(Object.keys(report.responses)).toEqual(statuses.map(String));
    for (const status of [200, 405, 413, 415, 500, 503, 507]) {
      const { schema, required } = report.responses[status]!.headers["RateLimit-Policy"]!;
      expect([required, accepts(schema, '"address";q=60;w=60'), accepts(schema, '"team";q=60;w=60')]).toEqual(
        [true, true, false],
      );
      expect(Object.keys(report.responses[status]!.headers)).not.toContain("X-Should-Retry");
    }
    expect(JSON.stringify(report.responses[413])).toContain("larger than 1024 bytes");
  });

  test.each(leakReportReasons)("%s as the server sends it fits its schema, as does the example", (reason) => {
    const { httpStatus } = reasons[reason];
    const { schema, examples } = report.responses[httpStatus]!.content["application/json"]!;
    const refusal = fail(reason, { metadata: { allow: "POST", bytes_max: "1024" }, param: "value" });
    const sent = refusalResponse(refusal, { requestId: "r-1", accept: undefined, rateHeaders: [] });
    expect(accepts(schema, JSON.parse(String(sent.body)))).toBe(true);
    expect(accepts(schema, examples[reason.toLowerCase()]!.value)).toBe(true);
  });
});

test("the descriptions are the proto's comments, and everything in the document has one", async () => {
  const comments = new Map((await ownBufImage()).file.flatMap(commentsOf));
  for (const [name, words] of Object.entries(protoWords)) expect(words, name).toBe(comments.get(name));
  const annotated = [...RunService.methods, KeyService.method.revokeLeakedKey];
  const mentioned = annotated.flatMap(({ parent, name, input, output }) => [
    ...[parent.typeName, `${parent.typeName}.${name}`],
    ...[input, output].flatMap(wordsOfMessage),
  ]);
  expect(Object.keys(protoWords).sort()).toEqual([...new Set(mentioned)].sort());
});

/** The names of a message of ours, its fields, and the messages inside of it. */
function wordsOfMessage({ typeName, fields }: DescMessage): string[] {
  if (typeName.startsWith("google.")) return [];
  return [
    typeName,
    ...fields.map(({ name }) => `${typeName}.${name}`),
    ...fields.flatMap(({ message }) => (message ? wordsOfMessage(message) : [])),
  ];
}

/**
 * Returns the leading comments of a file's services, methods, messages and fields, by full name.
 */
function commentsOf(file: FileDescriptorProto): [string, string][] {
  return (file.sourceCodeInfo?.location ?? []).flatMap((location): [string, string][] => {
    const name = nameAt(file, location);
    const comment = location.leadingComments
      .trim()
      .split(/\s*\n\s*/)
      .join(" ");
    return name === undefined || comment === "" ? [] : [[`${file.package}.${name}`, comment]];
  });
}

/**
 * Field numbers in descriptor.proto: message_type is 4 and service is 6 in a file; field and method
 * are 2 in those.
 */
function nameAt(file: FileDescriptorProto, { path }: SourceCodeInfo_Location): string | undefined {
  const [list, index = -1, member, memberIndex = -1, ...deeper] = path;
  const message = list === 4 ? file.messageType[index] : undefined;
  const service = list === 6 ? file.service[index] : undefined;
  const outer = message ?? service;
  if (!outer || deeper.length > 0) return undefined;
  if (member === undefined) return outer.name;
  const inner = member === 2 ? (message?.field[memberIndex] ?? service?.method[memberIndex]) : undefined;
  return inner && `${outer.name}.${inner.name}`;
}

test("no list of codes or states is closed, and each is plain text that names the values of today", () => {
  const lists: Record<string, readonly string[]> = {};
  const closed: string[] = [];
  const look = (value: unknown, path: string) => {
    if (typeof value !== "object" || value === null) return;
    if ("enum" in value) closed.push(path);
    if ("x-extensible-enum" in value) {
      const { "x-extensible-enum": values, ...plain } = value;
      lists[path] = values as string[];
      expect(plain).toEqual({ type: "string", description: expect.stringContaining("More may be added") });
    }
    for (const [name, part] of Object.entries(value)) look(part, `${path}/${name}`);
  };
  look(document.components.schemas, "");
  expect(closed).toEqual([]);
  expect(lists["/keyrun.v1.RunState"]).toContain("RUN_STATE_SUCCEEDED");
  expect(lists["/Error404/properties/error/properties/code"]).toContain("app_not_found");
  expect(lists["/StreamError/properties/error/properties/code"]).toContain("app_failed");
});
