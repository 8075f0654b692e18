import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { codeName, publicCode, refusalResponse } from "../../http/refusal-response.ts";
import { type Reason, reasons } from "../../refusal/reasons.ts";
import { fail, type Refusal, type RefusalFacts } from "../../refusal/refusal.ts";
import type { Config } from "../../settings/config.ts";
import type { ResponseHeaders } from "./response-headers.ts";
import { runReasons } from "./run-reasons.ts";

/**
 * Returns the responses to refused runs by HTTP status, one response for each status, with every
 * code that it may hold and an example of each. The code that refuses requests makes the examples,
 * so they are exactly what callers get.
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

/** Returns the schemas of both forms of a refusal, for `#/components/schemas`. */
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

/** The words from the table of reasons, even if the example has its own words. */
function lineOf(reason: Reason, { metadata = {} }: RefusalFacts = {}): string {
  const refusal = fail(reason, { metadata });
  return `\`${publicCode(refusal)}\`: ${refusal.message}`;
}

/** The HTTP parser sends these before it knows which media types the caller accepts. */
const unreadStatuses = [408, 431];

interface Form {
  /** True if this form is sent even when the request could not be read. */
  readonly unread: boolean;
  readonly mediaType: string;
  readonly schema: string;
  /** Returns what these refusals have in common, beyond the form's schema. */
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
