import type { JsonObject } from "@bufbuild/protobuf";
import { bounds } from "#src/bounds.ts";
import type { ReasonRow } from "#src/refusal/reason-row.ts";
import { type Reason, rowOf, runReasons } from "#src/refusal/reasons.ts";
import type { OpenApiFacts } from "#src/rest/openapi.ts";
import { planNames } from "#src/settings/config.ts";

export interface ResponseHeaders {
  /** Every header, by name, for `#/components/headers`. */
  readonly components: Record<string, JsonObject>;
  /** The headers of responses with this status. */
  of(status: number): JsonObject;
  /** The headers that a stream has beside those of 200. */
  readonly ofStreams: JsonObject;
}

/** What the headers of a method's responses depend on. */
export interface HeaderGroup {
  readonly reasons: readonly Reason[];
  /** Before the names of components: those of another group have the same ends. */
  readonly prefix: string;
  readonly rateHeaders: Record<string, JsonObject>;
  /** Whether an API key is shown. */
  readonly takesKey: boolean;
  /** Whether an app may be at work on the request, whose answer may be kept for a repeat. */
  readonly runsApps: boolean;
}

/** The headers of the responses to a run. */
export function runHeaders(facts: OpenApiFacts): HeaderGroup {
  return { reasons: runReasons, prefix: "", rateHeaders: rateHeaders(facts), takesKey: true, runsApps: true };
}

/** The headers of a method's responses: their names and values, and which status has which. */
export function createResponseHeaders(group: HeaderGroup): ResponseHeaders {
  const endHeaders = group.takesKey ? keyEndHeaders : {};
  const components = { ...identityHeaders, ...group.rateHeaders, ...endHeaders, ...refusalHeaders };
  return {
    components: Object.fromEntries(
      Object.entries(components).map(([name, schema]) => [`${group.prefix}${name}`, schema]),
    ),
    ofStreams: streamHeaderSchemas,
    of(status) {
      const { always, sometimes } = carriedOn(group, status);
      const refer = (name: string) => ({ $ref: `#/components/headers/${group.prefix}${name}` });
      return {
        ...Object.fromEntries(always.map((name) => [name, refer(name)])),
        ...Object.fromEntries(sometimes.map((name) => [name, { ...components[name], required: false }])),
      };
    },
  };
}

const identityNames = ["X-Request-Id", "Date"];
const rateNames = [
  "RateLimit-Limit",
  "RateLimit-Remaining",
  "RateLimit-Reset",
  "RateLimit",
  "RateLimit-Policy",
];

/** Sent only once the key is proven. */
const keyEndNames = ["X-Key-Expires", "X-Key-Replaced"];
const unprovenStatuses = [401, 405];

/** The outcomes of a run that are kept for its Idempotency-Key. */
const replayedStatuses = [200, 502, 504];

interface Carried {
  readonly always: readonly string[];
  readonly sometimes: readonly string[];
}

function carriedOn(group: HeaderGroup, status: number): Carried {
  // The HTTP parser sends these before there is a request, and says if an app may be at work on the
  // one before it.
  if (status === 408 || status === 431) return { always: identityNames, sometimes: ["X-Should-Retry"] };
  // Some responses with these statuses are sent before a limit is known: those of the HTTP parser,
  // and the one for an unknown path.
  const ends = group.takesKey && !unprovenStatuses.includes(status) ? keyEndNames : [];
  if (status === 404) {
    return { always: [...identityNames, ...ownOn(group, status).always], sometimes: [...rateNames, ...ends] };
  }
  if (status === 400) return { always: identityNames, sometimes: [...rateNames, ...ends, "X-Should-Retry"] };
  const own = ownOn(group, status);
  const replayed = group.runsApps && replayedStatuses.includes(status) ? ["Idempotency-Replayed"] : [];
  return {
    always: [...identityNames, ...rateNames, ...own.always],
    sometimes: [...ends, ...own.sometimes, ...replayed],
  };
}

/** The headers that the rows of the reasons with this status name. */
function ownOn({ reasons, runsApps }: HeaderGroup, status: number): Carried {
  if (status === 429) {
    // A limit's own wait, to the millisecond. That of a quota is too long for it.
    if (!reasons.includes("QUOTA_EXCEEDED"))
      return { always: ["Retry-After", "Retry-After-Ms"], sometimes: [] };
    return { always: ["Retry-After"], sometimes: ["Retry-After-Ms", "X-Should-Retry"] };
  }
  // What was wrong with the body: its type or its compression.
  if (status === 415) return { always: [], sometimes: ["Accept", "Accept-Encoding"] };
  const rows = reasons.map(rowOf).filter(({ httpStatus }) => httpStatus === status);
  const always = new Set(rows.flatMap(({ headers = {} }) => Object.keys(headers)));
  const sometimes: string[] = [];
  const note = (name: string, isOn: (row: ReasonRow) => boolean) => {
    if (rows.length > 0 && rows.every(isOn)) always.add(name);
    else if (rows.some(isOn)) sometimes.push(name);
  };
  note("Retry-After", ({ retryAfterMs }) => retryAfterMs !== undefined);
  note("X-Should-Retry", ({ unsafeToRepeat = false }) => unsafeToRepeat);
  if (runsApps && status >= 500 && !always.has("X-Should-Retry")) sometimes.push("X-Should-Retry");
  return { always: [...always], sometimes };
}

const windowS = bounds.limitWindowMs / 1000;

const identityHeaders: Record<string, JsonObject> = {
  "X-Request-Id": {
    description: "The caller's id if it has the right form, otherwise a new one. The logs contain it.",
    required: true,
    schema: { type: "string", pattern: "^[A-Za-z0-9._-]{1,128}$" },
  },
  Date: { description: "The server's time (RFC 9110).", required: true, schema: { type: "string" } },
};

const quotaItem = '"(team|key)-(day|month)"';

function rateHeaders(facts: OpenApiFacts): Record<string, JsonObject> {
  const plans = planNames.map((plan) => `${plan} ${facts[plan]}`).join(", ");
  return {
    "RateLimit-Limit": {
      description:
        `Requests a minute of the team's plan: ${plans}. If the key has a limit of its own, the three RateLimit-* ` +
        "headers describe the one of both with fewer left, and on 429 the one that frees later. " +
        "On the 429 `quota_exceeded` they describe the quota: all that it allows in this day or month, with what was granted. " +
        `If the team is not known (401, 405 and other early ` +
        `refusals), this header and the four below describe the caller's address instead: ${bounds.addressLookupsMax} ` +
        "look-ups a minute that found no valid key. Responses of the HTTP parser and to an unknown path have none of the five.",
      required: true,
      schema: { type: "integer", minimum: 1 },
    },
    "RateLimit-Remaining": {
      description: `What is left in the current window of ${windowS} seconds, after this request.`,
      required: true,
      schema: { type: "integer", minimum: 0 },
    },
    "RateLimit-Reset": {
      description: "When the next slot opens: Unix time in whole seconds, rounded up.",
      required: true,
      schema: { type: "integer", minimum: 0 },
    },
    RateLimit: {
      description:
        "The same in the form of draft-ietf-httpapi-ratelimit-headers: requests left, and seconds until the next one is free. With an item for a limit of the key's own, and for each quota, such as `team-month`.",
      required: true,
      schema: {
        type: "string",
        pattern: `^"(team|address)";r=[0-9]+;t=[0-9]+(, "key";r=[0-9]+;t=[0-9]+)?(, ${quotaItem};r=[0-9]+;t=[0-9]+)*$`,
      },
      example: '"team";r=12;t=7',
    },
    "RateLimit-Policy": {
      description:
        "The limit in the form of that draft: the number of requests and the window in seconds. With the same items.",
      required: true,
      schema: {
        type: "string",
        pattern: `^"(team|address)";q=[0-9]+;w=${windowS}(, "key";q=[0-9]+;w=${windowS})?(, ${quotaItem};q=[0-9]+;w=[0-9]+)*$`,
      },
      example: `"team";q=${facts.pro};w=${windowS}`,
    },
  };
}

const keyEndHeaders: Record<string, JsonObject> = {
  "X-Key-Expires": {
    description:
      "From when on the key is refused, in RFC 3339. Sent in the last 14 days before, and always if the key is replaced.",
    required: true,
    schema: { type: "string", format: "date-time" },
    example: "2027-01-31T00:00:00.000Z",
  },
  "X-Key-Replaced": {
    description: "Another key has taken the place of this one: use that one from now on.",
    required: true,
    schema: { const: "true" },
  },
};

const refusalHeaders: Record<string, JsonObject> = {
  "WWW-Authenticate": {
    description: 'The challenge (RFC 6750); `error="invalid_token"` unless no bearer token was sent.',
    required: true,
    schema: { type: "string", pattern: '^Bearer realm="keyrun"(, error="invalid_token")?$' },
  },
  Allow: { description: "The methods that the path takes.", required: true, schema: { type: "string" } },
  Accept: {
    description: "The media types that a body may have, if that was wrong.",
    required: true,
    schema: { type: "string" },
  },
  "Accept-Encoding": {
    description: "The compressions that a body may have, if that was wrong: `identity` is none.",
    required: true,
    schema: { type: "string" },
  },
  "Cache-Control": { description: "No cache keeps it.", required: true, schema: { const: "no-store" } },
  "Retry-After": {
    description:
      "Whole seconds to wait, rounded up. A request sent then succeeds, unless another request used the free place first. At most a minute, and for a quota at most a day.",
    required: true,
    schema: { type: "integer", minimum: 1, maximum: bounds.quotaRetryAfterMsMax / 1_000 },
  },
  "Retry-After-Ms": {
    description: "The same wait in milliseconds, rounded up. Not for a quota.",
    required: true,
    schema: { type: "integer", minimum: 1, maximum: bounds.limitWindowMs },
  },
  "Idempotency-Replayed": {
    description:
      "The answer is that of an earlier request with the same Idempotency-Key. The app was not started again.",
    required: true,
    schema: { const: "true" },
  },
  "X-Should-Retry": {
    description:
      "The app may have done its work: repeat the request only if that is safe. On 429: the quota is used up, so a repeat helps only later.",
    required: true,
    schema: { const: "false" },
  },
};

const streamHeaderSchemas: JsonObject = {
  "Cache-Control": {
    description: "No cache keeps a stream, and no proxy compresses it, which would hold its messages back.",
    required: true,
    schema: { const: "no-store, no-transform" },
  },
  "X-Accel-Buffering": {
    description: "Proxies such as nginx then pass on each piece at once.",
    required: true,
    schema: { const: "no" },
  },
};
