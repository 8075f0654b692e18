import type { DescService, JsonObject } from "@bufbuild/protobuf";
import { RunSchema } from "#gen/keyrun/v1/run_pb.ts";
import { resourceIdForm } from "#src/base/fields.ts";
import { bounds } from "#src/bounds.ts";
import { createKeyText } from "#src/keys/key-value.ts";
import type { OpenApiFacts } from "#src/rest/openapi.ts";
import {
  acceptedHeaders,
  backgroundAnswers,
  preferenceHeaders,
  preferParameter,
  preferWaitParameter,
} from "./background-answers.ts";
import { leakReportAnswers } from "./leak-report-answers.ts";
import { createOpenApi, type MethodFacts } from "./openapi.ts";
import { protoWords } from "./proto-words.ts";
import { refusalAnswers, refusalSchemas, runRefusals, streamErrorSchema } from "./refusal-answers.ts";
import { createResponseHeaders, runHeaders } from "./response-headers.ts";

export interface KeyrunOpenApiOptions {
  readonly services: readonly DescService[];
  readonly facts: OpenApiFacts;
}

/**
 * Creates the document of `/openapi.json`: the whole contract of the REST API, with every header
 * and every refusal. The server of the API is the origin that the document comes from.
 */
export function createKeyrunOpenApi({ services, facts }: KeyrunOpenApiOptions): JsonObject {
  const { version, keyPrefix } = facts;
  const headers = createResponseHeaders(runHeaders(facts));
  const leakReports = leakReportAnswers(facts);
  const background = backgroundAnswers(facts);
  const appId = { pattern: resourceIdForm.source };
  const text = { maxLength: facts.textCharactersMax };
  // The app is in the path. `anyOf` would say more, but generated clients make a union of it.
  const textOrInput = { minProperties: 1 };
  const run: MethodFacts = {
    parameters: [requestIdParameter, idempotencyKeyParameter, preferParameter],
    successHeaders: { ...headers.of(200), ...preferenceHeaders(false) },
    accepted: {
      words: "The run goes on in the background: read it at `Location`.",
      headers: { ...headers.of(200), ...preferenceHeaders(true), ...acceptedHeaders },
      message: RunSchema,
    },
    refusals: refusalAnswers(runRefusals, facts, headers),
    security: [{ apiKey: [] }],
  };
  // A stream takes no Idempotency-Key, and these answers are about one.
  const { "Idempotency-Replayed": _, ...wholeHeaders } = headers.of(200);
  const { 409: _inUse, 422: _reused, ...streamRefusals } = run.refusals;
  const { accepted: _accepted, ...waitedFor } = run;
  const stream: MethodFacts = {
    ...{ ...waitedFor, parameters: [requestIdParameter], refusals: streamRefusals },
    successHeaders: { ...wholeHeaders, ...headers.ofStreams },
    fault: { $ref: "#/components/schemas/StreamError" },
  };
  const runs: MethodFacts = {
    ...{ parameters: [requestIdParameter], security: [{ apiKey: [] }] },
    successHeaders: background.headers.of(200),
    refusals: background.refusals,
  };
  const document = createOpenApi({
    services,
    info: {
      title: "Keyrun",
      version: version,
      description,
      contact: { name: "The operator of this Keyrun" },
      license: { name: "UNLICENSED", identifier: "LicenseRef-UNLICENSED" },
    },
    serverUrl: "/",
    words: protoWords,
    fields: {
      "keyrun.v1.RunAppRequest": textOrInput,
      "keyrun.v1.RunAppRequest.app_id": appId,
      "keyrun.v1.RunAppRequest.text": text,
      "keyrun.v1.StreamAppRequest": textOrInput,
      "keyrun.v1.StreamAppRequest.app_id": appId,
      "keyrun.v1.StreamAppRequest.text": text,
      "keyrun.v1.RevokeLeakedKeyRequest.value": { pattern: `^${createKeyText(keyPrefix).pattern}$` },
    },
    methods: {
      "keyrun.v1.RunService.RunApp": run,
      "keyrun.v1.RunService.StreamApp": stream,
      "keyrun.v1.RunService.GetRun": { ...runs, parameters: [requestIdParameter, preferWaitParameter] },
      "keyrun.v1.RunService.ListRuns": runs,
      "keyrun.v1.RunService.CancelRun": runs,
      "keyrun.v1.KeyService.RevokeLeakedKey": {
        ...{ parameters: [requestIdParameter], security: [] },
        successHeaders: leakReports.headers.of(200),
        refusals: leakReports.refusals,
      },
    },
    components: {
      securitySchemes: { apiKey: apiKeyScheme(keyPrefix) },
      headers: { ...headers.components, ...background.headers.components, ...leakReports.headers.components },
      schemas: {
        ...refusalSchemas(runRefusals),
        ...background.schemas,
        ...leakReports.schemas,
        StreamError: streamErrorSchema(),
      },
    },
  });
  return withoutUnusedHeaders(document);
}

/** Most headers of refusals are written where they may be absent, and not referred to. */
function withoutUnusedHeaders(document: JsonObject): JsonObject {
  const written = JSON.stringify(document);
  const components = document.components as { readonly headers: JsonObject };
  const used = Object.entries(components.headers).filter(([name]) =>
    written.includes(`"#/components/headers/${name}"`),
  );
  return { ...document, components: { ...components, headers: Object.fromEntries(used) } };
}

const description =
  "Run a team's apps over HTTP with an API key. A body is JSON in UTF-8; a field or a query parameter that isn't " +
  "named here is refused. Every refusal has one shape, or that of RFC 9457 with `Accept: application/problem+json`.";

const requestIdParameter: JsonObject = {
  name: "X-Request-Id",
  in: "header",
  required: false,
  description:
    "The caller's own id for the request, which the answer and the logs then carry. It is replaced unless it matches " +
    "`[A-Za-z0-9._-]{1,128}` and is certainly no API key.",
  schema: { type: "string" },
};

const idempotencyKeyParameter: JsonObject = {
  name: "Idempotency-Key",
  in: "header",
  required: false,
  description:
    "Makes the request safe to repeat: the app is started at most once for each key of the team. A repeat with the same " +
    "input gets the same answer, with `Idempotency-Replayed: true`. 1 to 255 visible ASCII characters, which may be in " +
    "quotes (draft-ietf-httpapi-idempotency-key-header); a new UUID for each run is a good key.",
  schema: { type: "string", minLength: 1, maxLength: 2 * bounds.idempotencyKeyCharactersMax + 2 },
};

function apiKeyScheme(keyPrefix: string): JsonObject {
  return {
    type: "http",
    scheme: "bearer",
    bearerFormat: `${keyPrefix}_<id>.<secret>`,
    description: "An API key of the team, whole as it was shown when it was created.",
  };
}
