import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { codeName, publicCode, refusalResponse } from "#src/http/refusal-response.ts";
import { type Reason, reasons, rowOf, runReasons } from "#src/refusal/reasons.ts";
import { fail, type Refusal, type RefusalFacts } from "#src/refusal/refusal.ts";
import type { OpenApiFacts } from "#src/rest/openapi.ts";
import { openList } from "./json-schema.ts";
import type { ResponseHeaders } from "./response-headers.ts";

/** The refusals of a REST method, and the names of their schemas. */
export interface RefusalGroup {
  readonly reasons: readonly Reason[];
  /** Before the names of schemas: those of another group have the same ends. */
  readonly prefix: string;
  /** Facts for the examples that are this method's own. */
  readonly examples?: Partial<Record<Reason, RefusalFacts>>;
}

export const runRefusals: RefusalGroup = { reasons: runReasons, prefix: "" };

/**
 * Returns the responses to refused requests by HTTP status, one response for each status, with
 * every code that it may hold and an example of each. The code that refuses requests makes the
 * examples, so they are exactly what callers get. Of the two media types only the usual one is
 * named: generated clients would give the error the type of either, and none of its fields.
 */
export function refusalAnswers(
  group: RefusalGroup,
  facts: OpenApiFacts,
  headers: ResponseHeaders,
): JsonObject {
  const exampleOf = (reason: Reason) => group.examples?.[reason] ?? exampleFactsOf(reason, facts);
  return Object.fromEntries(
    statusesOf(group).map((status) => {
      const here = reasonsWith(group, status);
      const refusals = here.map((reason) => fail(reason, exampleOf(reason)));
      const description = here.map((reason) => lineOf(reason, exampleOf(reason))).join("\n\n");
      const schema = `${group.prefix}Error${status}`;
      const content = { "application/json": contentOf({ schema, refusals }) };
      return [status, { description, headers: headers.of(status), content }];
    }),
  );
}

function statusesOf(group: RefusalGroup): number[] {
  return [...new Set(group.reasons.map((reason) => reasons[reason].httpStatus))].sort((a, b) => a - b);
}

function reasonsWith(group: RefusalGroup, status: number): Reason[] {
  return group.reasons.filter((reason) => reasons[reason].httpStatus === status);
}

/** The words from the table of reasons, even if the example has its own words. */
function lineOf(reason: Reason, { metadata = {} }: RefusalFacts = {}): string {
  const refusal = fail(reason, { metadata });
  return `\`${publicCode(refusal)}\`: ${refusal.message}`;
}

/**
 * Returns a schema for each status, for `#/components/schemas`. Each is whole: a schema that only
 * narrowed a common one would forbid the properties of the other, as strict tools read it.
 */
export function refusalSchemas(group: RefusalGroup): Record<string, JsonObject> {
  const schemas = statusesOf(group).map((status) => {
    const refusals = reasonsWith(group, status).map((reason) => fail(reason));
    return [`${group.prefix}Error${status}`, errorSchema(refusals)];
  });
  return Object.fromEntries(schemas);
}

/** What ends a stream after its begin: any of the reasons, because its status is already sent. */
export function streamErrorSchema(): JsonObject {
  const description = "Why a stream broke off.";
  return { ...errorSchema(runReasons.map((reason) => fail(reason))), description };
}

function errorSchema(refusals: readonly Refusal[]): JsonObject {
  const rows = refusals.map(({ reason }) => reasons[reason]);
  const error = objectOf({
    type: openList("The class of error.", distinct(rows.map(({ type }) => type))),
    code: openList("What happened, for programs.", distinct(refusals.map(publicCode))),
    ...commonSchemas,
    message: { type: "string", description: "What happened and what to do, for people." },
    status: openList("The gRPC status.", distinct(rows.map(({ code }) => codeName(code)))),
  });
  return { description: "Why a request was refused.", ...objectOf({ error }) };
}

function distinct(values: readonly string[]): string[] {
  return [...new Set(values)];
}

const commonSchemas: Record<string, JsonObject> = {
  param: { type: ["string", "null"], description: "The field at fault, as the caller wrote it." },
  requestId: { type: "string", description: "The request's id, as in `X-Request-Id`." },
  details: {
    type: "array",
    description: "`google.rpc` error details, the first an ErrorInfo (AIP-193).",
    items: {
      type: "object",
      properties: { "@type": { type: "string" } },
      required: ["@type"],
      additionalProperties: true,
    },
  },
};

function contentOf({
  schema,
  refusals,
}: {
  readonly schema: string;
  readonly refusals: readonly Refusal[];
}): JsonObject {
  const examples = refusals.map((refusal) => [publicCode(refusal), { value: bodyOf(refusal) }]);
  return {
    schema: { $ref: `#/components/schemas/${schema}` },
    examples: Object.fromEntries(examples),
  };
}

function bodyOf(refusal: Refusal): JsonValue {
  const { body } = refusalResponse(refusal, { requestId: "order-4711", accept: "", rateHeaders: [] });
  return JSON.parse(String(body));
}

/** What the row says, and what its words name of the settings. */
function exampleFactsOf(reason: Reason, { free, bodyBytesMax }: OpenApiFacts): RefusalFacts {
  const { words, ofRun } = rowOf(reason);
  const ofSettings = Object.entries({ limit: free, bytes_max: bodyBytesMax });
  const named = Object.fromEntries(ofSettings.filter(([name]) => words.includes(`{${name}}`)));
  return { ...ofRun, metadata: { ...named, ...ofRun?.metadata } };
}

function objectOf(properties: Record<string, JsonObject>): JsonObject {
  return { type: "object", properties, required: Object.keys(properties) };
}
