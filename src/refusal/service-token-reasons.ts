import { exists, failedPrecondition, notFound, permission } from "./reason-classes.ts";
import type { ReasonRow } from "./reason-row.ts";

/** The reasons that services with a token of their own meet. */
export const serviceTokenReasons = {
  SERVICE_ROLE_REQUIRED: {
    ...permission,
    words: "The token of the service `{service}` may not do this. It needs one with the role {role}.",
  },
  SERVICE_TOKEN_NOT_FOUND: { ...notFound, words: "There is no service token with this id." },
  SERVICE_TOKEN_LIMIT_REACHED: {
    ...failedPrecondition,
    words:
      "There are {service_token_count_max} accepted service tokens, the most there may be. Revoke one first.",
  },
  SERVICE_TOKEN_OF_SETTINGS: {
    ...failedPrecondition,
    words:
      "The token `local` is that of the settings and can't be revoked so. Change KEYRUN_SERVICE_TOKEN, or replace the file service-token in the data folder, and restart Keyrun.",
  },
  SERVICE_TOKEN_EXISTS: {
    ...exists,
    words: "An accepted service token has the name `{name}`. Choose another name, or revoke that one first.",
  },
} as const satisfies Record<string, ReasonRow>;
