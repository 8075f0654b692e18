import type { JsonObject } from "@bufbuild/protobuf";
import type { Reason } from "#src/refusal/reasons.ts";
import type { OpenApiFacts } from "#src/rest/openapi.ts";
import { type RefusalGroup, refusalAnswers, refusalSchemas } from "./refusal-answers.ts";
import { createResponseHeaders, type ResponseHeaders, runHeaders } from "./response-headers.ts";

/** The reasons for which a request about a run in the background can be refused over REST. */
const backgroundReasons = [
  "MISSING_API_KEY",
  "MALFORMED_AUTHORIZATION",
  "INVALID_API_KEY",
  "REVOKED_API_KEY",
  "EXPIRED_API_KEY",
  "NOT_FOUND",
  "RUN_NOT_FOUND",
  "METHOD_NOT_ALLOWED",
  "INVALID_JSON",
  "INVALID_ARGUMENT",
  "MALFORMED_REQUEST",
  "REQUEST_TIMEOUT",
  "HEADERS_TOO_LARGE",
  "REQUEST_TOO_LARGE",
  "UNSUPPORTED_MEDIA_TYPE",
  "RATE_LIMIT_EXCEEDED",
  "QUOTA_EXCEEDED",
  "UNAVAILABLE",
  "OVERLOADED",
  "STORE_FULL",
  "INTERNAL",
] as const satisfies readonly Reason[];

const prefix = "BackgroundRun";

/** What the document says of the answers to requests about runs in the background. */
export function backgroundAnswers(facts: OpenApiFacts): {
  readonly headers: ResponseHeaders;
  readonly refusals: JsonObject;
  readonly schemas: Record<string, JsonObject>;
} {
  const group: RefusalGroup = {
    reasons: backgroundReasons,
    prefix,
    examples: {
      METHOD_NOT_ALLOWED: { metadata: { allow: "GET, HEAD" } },
      INVALID_ARGUMENT: { param: "wait", problem: 'wait must not be negative: as "30s".' },
    },
  };
  const headers = createResponseHeaders({
    ...runHeaders(facts),
    ...{ reasons: backgroundReasons, prefix, runsApps: false },
  });
  return { headers, refusals: refusalAnswers(group, facts, headers), schemas: refusalSchemas(group) };
}

/** The headers of 202, beside those of 200. */
export const acceptedHeaders: JsonObject = {
  Location: {
    description: "Where the run can be read: `/api/runs/<run_id>`.",
    required: true,
    schema: { type: "string" },
  },
  "Retry-After": {
    description: "A hint: whole seconds after which to look at the run. To wait for it costs fewer requests.",
    required: true,
    schema: { type: "integer", minimum: 1 },
  },
};

/** The headers of an answer to which a preference was applied. */
export function preferenceHeaders(required: boolean): JsonObject {
  return {
    "Preference-Applied": {
      description: "The preferences that were applied (RFC 7240), the wait as it was cut.",
      required,
      schema: { type: "string", pattern: "^respond-async(, wait=[0-9]+)?$" },
      example: "respond-async, wait=10",
    },
    Vary: { description: "The answer depends on `Prefer`.", required, schema: { const: "Prefer" } },
    "Cache-Control": { description: "No cache keeps it.", required, schema: { const: "no-store" } },
  };
}

export const preferParameter: JsonObject = {
  name: "Prefer",
  in: "header",
  required: false,
  description:
    "`respond-async` (RFC 7240) starts the run in the background: it is answered with 202 before the app answers. With " +
    "`respond-async, wait=10` the caller waits up to 10 s first, 50 at most. It is ignored where nothing is kept of " +
    "runs, and while a fleet is upgraded from a Keyrun without runs in the background.",
  schema: { type: "string" },
  example: "respond-async, wait=10",
};

/** The same wait as the parameter `wait` of the query, which counts first. */
export const preferWaitParameter: JsonObject = {
  name: "Prefer",
  in: "header",
  required: false,
  description: "`wait=30` (RFC 7240) is the same as the parameter `wait` in the query, which counts first.",
  schema: { type: "string" },
  example: "wait=30",
};
