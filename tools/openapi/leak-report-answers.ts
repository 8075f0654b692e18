import type { JsonObject } from "@bufbuild/protobuf";
import { bounds } from "#src/bounds.ts";
import type { Reason } from "#src/refusal/reasons.ts";
import type { OpenApiFacts } from "#src/rest/openapi.ts";
import { type RefusalGroup, refusalAnswers, refusalSchemas } from "./refusal-answers.ts";
import { createResponseHeaders, type ResponseHeaders } from "./response-headers.ts";

/** The reasons for which the report of a leaked key over REST can be refused. */
export const leakReportReasons = [
  "NOT_FOUND",
  "KEY_NOT_FOUND",
  "METHOD_NOT_ALLOWED",
  "INVALID_JSON",
  "INVALID_ARGUMENT",
  "MALFORMED_REQUEST",
  "REQUEST_TIMEOUT",
  "HEADERS_TOO_LARGE",
  "REQUEST_TOO_LARGE",
  "UNSUPPORTED_MEDIA_TYPE",
  "UNAVAILABLE",
  "STORE_FULL",
  "INTERNAL",
] as const satisfies readonly Reason[];

const prefix = "LeakReport";

/** What the document says of the answers to the report of a leaked key. */
export function leakReportAnswers(facts: OpenApiFacts): {
  readonly headers: ResponseHeaders;
  readonly refusals: JsonObject;
  readonly schemas: Record<string, JsonObject>;
} {
  const group: RefusalGroup = {
    reasons: leakReportReasons,
    prefix,
    examples: {
      KEY_NOT_FOUND: { param: "value", problem: "There is no key with this value." },
      INVALID_ARGUMENT: { param: "value", problem: "value is required: the whole key." },
    },
  };
  const headers = createResponseHeaders({
    ...{ reasons: leakReportReasons, prefix, takesKey: false, runsApps: false },
    rateHeaders: addressHeaders(),
  });
  return {
    headers,
    refusals: refusalAnswers(group, { ...facts, bodyBytesMax: facts.reportBytesMax }, headers),
    schemas: refusalSchemas(group),
  };
}

const windowS = bounds.limitWindowMs / 1000;

/** The allowance of the caller's address: no team is known that could have a limit. */
function addressHeaders(): Record<string, JsonObject> {
  const count = { required: true, schema: { type: "integer", minimum: 0 } };
  return {
    "RateLimit-Limit": {
      description: `Look-ups a minute of the caller's address that found no valid key: ${bounds.addressLookupsMax}.`,
      ...{ required: true, schema: { type: "integer", minimum: 1 } },
    },
    "RateLimit-Remaining": {
      description:
        "What is left of them. With none left, the address's reports are looked up one at a time, and refused with 503 " +
        `after a wait of ${bounds.lookupWaitMsMax / 1000} s.`,
      ...count,
    },
    "RateLimit-Reset": {
      description: "When the next one is free again: Unix time in whole seconds, rounded up.",
      ...count,
    },
    RateLimit: {
      description: "The same in the form of draft-ietf-httpapi-ratelimit-headers.",
      ...{ required: true, schema: { type: "string", pattern: '^"address";r=[0-9]+;t=[0-9]+$' } },
      example: '"address";r=59;t=60',
    },
    "RateLimit-Policy": {
      description: "The allowance in the form of that draft.",
      ...{ required: true, schema: { type: "string", pattern: `^"address";q=[0-9]+;w=${windowS}$` } },
      example: `"address";q=${bounds.addressLookupsMax};w=${windowS}`,
    },
  };
}
