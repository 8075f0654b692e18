import { unguarded } from "#src/auth/key-evidence.ts";
import { systemClock } from "#src/base/clock.ts";
import type { Mount } from "#src/http/handler.ts";
import { fail } from "#src/refusal/refusal.ts";
import type { RpcPolicy } from "#src/rpc/authenticate.ts";
import { createRpcHandler } from "#src/rpc/rpc-handler.ts";
import { isConversation, rpcsOf, type ServedService } from "#src/rpc/served.ts";
import { type ServedHandler, type ServedHandlerOptions, serveMounts } from "./served-handler.ts";

export interface RpcListenerOptions extends ServedHandlerOptions {
  readonly messageBytesMax?: number;
}

/**
 * Serves services behind Keyrun's own handlers and listener, as the product does. No call needs a
 * credential.
 */
export function serveRpcs(
  services: readonly ServedService[],
  { messageBytesMax = 1024 * 1024, ...options }: RpcListenerOptions = {},
): Promise<ServedHandler> {
  return serveMounts(
    (outcomes) => {
      const findRpc = createRpcHandler({
        rpcs: rpcsOf(services),
        policy: openPolicy,
        authenticate: async () => ({ kind: "admitted", principal: anyone }),
        audit: { during: (_method, _called, work) => work(), unauthorized: () => {} },
        sessions: undefined,
        allowance: { snapshot: () => undefined },
        clock: systemClock,
        messageBytesMax,
        needsConnectVersion: true,
        outcomes,
      });
      return (head) => findRpc(head) ?? nothing;
    },
    { isConversation: isConversation(services), ...options },
  );
}

/** A policy under which no method needs a credential. */
export const openPolicy: RpcPolicy = {
  credentialOf: () => "none",
  roleOf: () => undefined,
  readsSessions: false,
  isActivity: () => false,
  isShed: () => false,
  requestBytesMaxOf: (_, usualMax) => usualMax,
};

const anyone = { kind: "anyone", address: "", guard: unguarded } as const;

const nothing: Mount = {
  handler: () => ({ refusal: fail("NOT_FOUND") }),
  entry: "rest",
  refusalForm: "json",
};
