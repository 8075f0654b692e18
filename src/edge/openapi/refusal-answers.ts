import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Config } from "../../config.ts";
import { fail, type Refusal, type RefusalFacts } from "../../error.ts";
import { type Reason, reasons } from "../../reasons.ts";
import { codeName, publicCode, refusalResponse } from "../refusal-response.ts";
import type { ResponseHeaders } from "./response-headers.ts";

/** Why a run over REST can be refused. A test sorts every reason there is into these and the others. */
export const runReasons = [
  "MISSING_API_KEY",
  "MALFORMED_AUTHORIZATION",
  "INVALID_API_KEY",
  "REVOKED_API_KEY",
  "APP_NOT_FOUND",
  "NOT_FOUND",
  "METHOD_NOT_ALLOWED",
  "INVALID_JSON",
  "INVALID_ARGUMENT",
  "MALFORMED_REQUEST",
  "REQUEST_TIMEOUT",
  "HEADERS_TOO_LARGE",
  "REQUEST_TOO_LARGE",
  "UNSUPPORTED_MEDIA_TYPE",
  "RATE_LIMIT_EXCEEDED",
  "APP_FAILED",
  "APP_TIMEOUT",
  "APP_BUSY",
  "UNAVAILABLE",
  "INTERNAL",
] as const satisfies readonly Reason[];

/**
 * The answers to refused runs, by status: one answer a status, with each code that it may hold and an example of it.
 * The examples are made by the code that refuses, so they are what a caller gets.
 */
export function refusalAnswers(
  config: Pick<Config, "planLimits" | "bodyBytesMax">,
  headers: ResponseHeaders,
): JsonObject {
  const exampleFacts = exampleFactsOf(config);
  const statuses = [...new Set(runReasons.map((reason) => reasons[reason].httpStatus))].sort((a, b) => a - b);
  return Object.fromEntries(
    statuses.map((status) => {
      const here = runReasons.filter((reason) => reasons[reason].httpStatus === status);
      const refusals = here.map((reason) => fail(reason, exampleFacts[reason]));
      const description = here.map((reason) => lineOf(reason, exampleFacts[reason])).join("\n\n");
      const content = Object.fromEntries(
        forms
          .filter(({ unread }) => unread || !unreadStatuses.includes(status))
          .map((form) => [form.mediaType, contentOf(form, refusals)]),
      );
      return [status, { description, headers: headers.of(status), content }];
    }),
  );
}

/** Both forms that a refusal can have, for `#/components/schemas`. */
export function refusalSchemas(): Record<string, JsonObject> {
  const facts = {
    code: { type: "string", description: "What happened, for programs.", pattern: "^[a-z_]+$" },
    param: { type: ["string", "null"], description: "The field at fault, as the caller wrote it." },
    requestId: { type: "string", description: "The request's id, as in `X-Request-Id`." },
    details: {
      type: "array",
      description: "`google.rpc` error details, the first an ErrorInfo (AIP-193).",
      items: { type: "object", properties: { "@type": { type: "string" } }, required: ["@type"] },
    },
  };
  const error = objectOf({
    type: { type: "string", description: "The class of error.", enum: [...new Set(runTypes())] },
    ...facts,
    message: { type: "string", description: "What happened and what to do, for people." },
    status: { type: "string", description: "The gRPC status.", pattern: "^[A-Z_]+$" },
  });
  const problem = objectOf({
    type: {
      type: "string",
      description: "`urn:keyrun:error:` and the code.",
      pattern: "^urn:keyrun:error:[a-z_]+$",
    },
    title: { type: "string", description: "The code in plain words." },
    status: { type: "integer", description: "The HTTP status." },
    detail: { type: "string", description: "What happened and what to do, for people." },
    ...facts,
  });
  return {
    Error: { description: "Why a request was refused.", ...objectOf({ error }) },
    Problem: { description: "Why a request was refused, as RFC 9457 has it.", ...problem },
  };
}

/** The reason's words in general, even where the example has its own. */
function lineOf(reason: Reason, { metadata = {} }: RefusalFacts = {}): string {
  const refusal = fail(reason, { metadata });
  return `\`${publicCode(refusal)}\`: ${refusal.message}`;
}

/** The HTTP parser answers with these before it knows what the caller accepts. */
const unreadStatuses = [408, 431];

interface Form {
  /** Whether a caller gets this form whose request could not be read. */
  readonly unread: boolean;
  readonly mediaType: string;
  readonly schema: string;
  /** What is true of the answer with one of these refusals, beyond the form's schema. */
  readonly narrow: (refusals: readonly Refusal[]) => JsonObject;
}

const forms: readonly Form[] = [
  {
    unread: true,
    mediaType: "application/json",
    schema: "Error",
    narrow: (refusals) => ({ error: { type: "object", properties: narrowed(refusals, "type", "status") } }),
  },
  {
    unread: false,
    mediaType: "application/problem+json",
    schema: "Problem",
    narrow: (refusals) => ({
      ...narrowed(refusals),
      status: { enum: [...new Set(refusals.map(({ reason }) => reasons[reason].httpStatus))] },
    }),
  },
];

function narrowed(refusals: readonly Refusal[], ...more: ("type" | "status")[]): JsonObject {
  const values = {
    code: refusals.map(publicCode),
    type: refusals.map(({ reason }) => reasons[reason].type),
    status: refusals.map(({ reason }) => codeName(reasons[reason].code)),
  };
  return Object.fromEntries(
    (["code", ...more] as const).map((name) => [name, { enum: [...new Set(values[name])] }]),
  );
}

function contentOf({ mediaType, schema, narrow }: Form, refusals: readonly Refusal[]): JsonObject {
  const examples = refusals.map((refusal) => [publicCode(refusal), { value: bodyOf(refusal, mediaType) }]);
  return {
    schema: {
      allOf: [{ $ref: `#/components/schemas/${schema}` }, { type: "object", properties: narrow(refusals) }],
    },
    examples: Object.fromEntries(examples),
  };
}

function bodyOf(refusal: Refusal, accept: string): JsonValue {
  const { body } = refusalResponse(refusal, { requestId: "order-4711", accept, rateHeaders: [] });
  return JSON.parse(String(body));
}

function exampleFactsOf({
  planLimits,
  bodyBytesMax,
}: Pick<Config, "planLimits" | "bodyBytesMax">): Partial<Record<Reason, RefusalFacts>> {
  return {
    REVOKED_API_KEY: { metadata: { revoke_time: "2026-05-04T12:00:00.000Z" } },
    APP_NOT_FOUND: { param: "app_id", metadata: { app_id: "ecko" } },
    METHOD_NOT_ALLOWED: { metadata: { allow: "POST" } },
    INVALID_ARGUMENT: { param: "text", problem: "text is required: a string, which may be empty." },
    REQUEST_TOO_LARGE: { metadata: { bytes_max: String(bodyBytesMax) } },
    RATE_LIMIT_EXCEEDED: {
      metadata: { limit: String(planLimits.free), retry_after_s: "7" },
      retryAfterMs: 6_120,
    },
  };
}

function runTypes(): string[] {
  return runReasons.map((reason) => reasons[reason].type);
}

function objectOf(properties: Record<string, JsonObject>): JsonObject {
  return { type: "object", properties, required: Object.keys(properties) };
}
