import type { JsonObject } from "@bufbuild/protobuf";
import { bounds, type Config, planNames } from "../../config.ts";

export interface ResponseHeaders {
  /** Every header, by name, for `#/components/headers`. */
  readonly components: Record<string, JsonObject>;
  /** The headers of answers with this status. */
  of(status: number): JsonObject;
}

/** The headers of the answers to a run: which there are, what they hold, and which status carries which. */
export function createResponseHeaders(planLimits: Config["planLimits"]): ResponseHeaders {
  const components = { ...identityHeaders, ...rateHeaders(planLimits), ...refusalHeaders };
  return {
    components,
    of(status) {
      const { always, sometimes } = carriedOn(status);
      return {
        ...Object.fromEntries(always.map((name) => [name, { $ref: `#/components/headers/${name}` }])),
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

interface Carried {
  readonly always: readonly string[];
  readonly sometimes: readonly string[];
}

function carriedOn(status: number): Carried {
  // The HTTP parser answers with these before it has a request.
  if (status === 408 || status === 431) return { always: identityNames, sometimes: [] };
  // Some answers with these are given before the path is known: the parser's, and that to an unknown path.
  if (status === 400 || status === 404) return { always: identityNames, sometimes: rateNames };
  const own = ownOn.get(status) ?? { always: [], sometimes: [] };
  return { always: [...identityNames, ...rateNames, ...own.always], sometimes: own.sometimes };
}

const ownOn: ReadonlyMap<number, Carried> = new Map([
  [401, { always: ["WWW-Authenticate"], sometimes: [] }],
  [405, { always: ["Allow"], sometimes: [] }],
  [429, { always: ["Retry-After", "Retry-After-Ms"], sometimes: [] }],
  [500, { always: [], sometimes: ["X-Should-Retry"] }],
  [502, { always: ["X-Should-Retry"], sometimes: [] }],
  [503, { always: ["Retry-After"], sometimes: ["X-Should-Retry"] }],
  [504, { always: ["X-Should-Retry"], sometimes: [] }],
]);

const windowS = bounds.limitWindowMs / 1000;

const identityHeaders: Record<string, JsonObject> = {
  "X-Request-Id": {
    description: "The id that the caller sent, where it has the right form; else a new one. Logs name it.",
    required: true,
    schema: { type: "string", pattern: "^[A-Za-z0-9._-]{1,128}$" },
  },
  Date: { description: "The server's time (RFC 9110).", required: true, schema: { type: "string" } },
};

function rateHeaders(planLimits: Config["planLimits"]): Record<string, JsonObject> {
  const plans = planNames.map((plan) => `${plan} ${planLimits[plan]}`).join(", ");
  return {
    "RateLimit-Limit": {
      description:
        `Requests a minute of the team's plan: ${plans}. Where no team was checked (401, 405, and what fails ` +
        `before the key is known) this and the next four tell of the address instead: ${bounds.addressLookupsMax} ` +
        "look-ups a minute that found no valid key. What the HTTP parser refuses, and an unknown path, carry none of the five.",
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
        "The same in the form of draft-ietf-httpapi-ratelimit-headers: what is left, and for how long.",
      required: true,
      schema: { type: "string", pattern: '^"(team|address)";r=[0-9]+;t=[0-9]+$' },
      example: '"team";r=12;t=7',
    },
    "RateLimit-Policy": {
      description: "The limit in the form of that draft: how many in how many seconds.",
      required: true,
      schema: { type: "string", pattern: `^"(team|address)";q=[0-9]+;w=${windowS}$` },
      example: `"team";q=${planLimits.pro};w=${windowS}`,
    },
  };
}

const refusalHeaders: Record<string, JsonObject> = {
  "WWW-Authenticate": {
    description: 'The challenge (RFC 6750); `error="invalid_token"` unless no key was sent.',
    required: true,
    schema: { type: "string", pattern: '^Bearer realm="keyrun"(, error="invalid_token")?$' },
  },
  Allow: { description: "The methods that the path takes.", required: true, schema: { type: "string" } },
  "Retry-After": {
    description: "Whole seconds to wait, rounded up. A request sent then succeeds if nobody took the slot.",
    required: true,
    schema: { type: "integer", minimum: 1, maximum: windowS },
  },
  "Retry-After-Ms": {
    description: "The same wait in milliseconds, rounded up.",
    required: true,
    schema: { type: "integer", minimum: 1, maximum: bounds.limitWindowMs },
  },
  "X-Should-Retry": {
    description: "The app may have done its work: repeat the request only if that is safe.",
    required: true,
    schema: { const: "false" },
  },
};
