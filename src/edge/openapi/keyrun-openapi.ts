import type { DescService, JsonObject } from "@bufbuild/protobuf";
import type { Config } from "../../config.ts";
import { resourceIdForm } from "../../fields/resource-id.ts";
import { createOpenApi, type MethodFacts } from "./openapi.ts";
import { protoWords } from "./proto-words.ts";
import { refusalAnswers, refusalSchemas } from "./refusal-answers.ts";
import { createResponseHeaders } from "./response-headers.ts";

export interface KeyrunOpenApiOptions {
  readonly services: readonly DescService[];
  readonly config: Pick<Config, "planLimits" | "bodyBytesMax" | "keyPrefix">;
  /** Keyrun's own version. */
  readonly version: string;
  /** Where the API is, without a trailing slash; the document's own origin where it is absent. */
  readonly publicUrl?: string | undefined;
}

/**
 * What `/openapi.json` answers: the whole contract of the REST edge, with every header and every refusal, for this
 * configuration. It changes only with the configuration, so it is made once at start-up.
 */
export function createKeyrunOpenApi(options: KeyrunOpenApiOptions): JsonObject {
  const { services, config, version } = options;
  const headers = createResponseHeaders(config.planLimits);
  const run: MethodFacts = {
    parameters: [requestIdParameter],
    successHeaders: headers.of(200),
    refusals: refusalAnswers(config, headers),
    security: [{ apiKey: [] }],
  };
  return createOpenApi({
    services,
    info: { title: "Keyrun", version, description },
    serverUrl: options.publicUrl ?? "/",
    words: protoWords,
    fields: {
      "keyrun.v1.RunAppRequest.app_id": { pattern: resourceIdForm.source },
      // An ASCII text of this length, sent alone and without blanks, just fits the body's bound.
      "keyrun.v1.RunAppRequest.text": { maxLength: config.bodyBytesMax - '{"text":""}'.length },
    },
    methods: { "keyrun.v1.RunService.RunApp": run },
    components: {
      securitySchemes: { apiKey: apiKeyScheme(config.keyPrefix) },
      headers: headers.components,
      schemas: refusalSchemas(),
    },
  });
}

const description =
  "Run a team's apps over HTTP with an API key. A body is JSON in UTF-8; a field or a query parameter that isn't " +
  "named here is refused. Every refusal has one shape, or that of RFC 9457 with `Accept: application/problem+json`.";

const requestIdParameter: JsonObject = {
  name: "X-Request-Id",
  in: "header",
  required: false,
  description: "The caller's own id for the request, which the answer and the logs then carry.",
  schema: { type: "string", pattern: "^[A-Za-z0-9._-]{1,128}$" },
};

function apiKeyScheme(keyPrefix: string): JsonObject {
  return {
    type: "http",
    scheme: "bearer",
    bearerFormat: `${keyPrefix}_<id>.<secret>`,
    description: "An API key of the team, whole as it was shown when it was created.",
  };
}
