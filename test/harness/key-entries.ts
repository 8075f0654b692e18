import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { KeyService, VerifyKeyResponse_Verdict as Verdict } from "#gen/keyrun/v1/key_service_pb.ts";
import { type CallerMaker, connectCallers, type RunOutcome } from "./callers.ts";
import { eventually, whileAnswer } from "./eventually.ts";
import { grpcJsCaller } from "./grpc-js-caller.ts";
import { withAuthorization } from "./keyrun.ts";
import type { ServingKeyrun } from "./keyrun-process.ts";
import { restCaller, restH2Caller } from "./rest-caller.ts";

/** What came of one use of a key. */
export type KeyUse =
  | { readonly kind: "accepted" | "revoked" }
  | { readonly kind: "limited"; readonly retryAfterMs: number };

/** One way in which a key is presented: a protocol, a version of HTTP, and connections. */
export interface KeyEntry {
  readonly name: string;
  /**
   * Rejects if the answer is neither an acceptance nor one of the two refusals. Asks again where a
   * busy machine made the event loop late, so that Keyrun has not begun with it.
   */
  use(value: string): Promise<KeyUse>;
  close(): void;
}

/** Every entry through which a key is accepted, each with connections of its own. */
export function openKeyEntries(keyrun: ServingKeyrun): KeyEntry[] {
  const runners: Record<string, CallerMaker | undefined> = {
    "REST over HTTP/1.1": restCaller,
    "REST over HTTP/2": restH2Caller,
    "Connect over HTTP/1.1": connectCallers["Connect over HTTP/1.1"],
    "Connect over HTTP/2": connectCallers["Connect over HTTP/2"],
    gRPC: grpcJsCaller,
    "gRPC-Web over HTTP/1.1": connectCallers["gRPC-Web over HTTP/1.1"],
  };
  return [
    ...Object.entries(runners).map(([name, make]) => runEntry(name, make!, keyrun.publicUrl)),
    verifyEntry(keyrun),
  ];
}

function runEntry(name: string, make: CallerMaker, url: string): KeyEntry {
  const caller = make(url);
  return {
    name,
    close: caller.close,
    async use(value) {
      const order = { appId: "echo", text: "x", authorization: `Bearer ${value}` };
      const outcome = await eventually(() => caller.run(order), whileAnswer(isShed));
      if (outcome.kind === "ok") return { kind: "accepted" };
      const [info] = outcome.details as { reason?: string }[];
      if (info?.reason === "REVOKED_API_KEY") return { kind: "revoked" };
      if (info?.reason !== "RATE_LIMIT_EXCEEDED") throw new Error(`${name}: ${outcome.message}`);
      const retryAfterMs = Number(outcome.headers.get("retry-after-ms"));
      if (Number(outcome.headers.get("retry-after")) !== Math.ceil(retryAfterMs / 1_000)) {
        throw new Error(`${name}: Retry-After and Retry-After-Ms differ`);
      }
      return { kind: "limited", retryAfterMs };
    },
  };
}

function isShed(outcome: RunOutcome): boolean {
  const [info] = outcome.kind === "refused" ? (outcome.details as { reason?: string }[]) : [];
  return info?.reason === "OVERLOADED";
}

function verifyEntry(keyrun: ServingKeyrun): KeyEntry {
  const sessionManager = new Http2SessionManager(keyrun.internalUrl);
  const interceptors = [withAuthorization(`Bearer ${keyrun.serviceToken()}`)];
  const transport = createGrpcTransport({ baseUrl: keyrun.internalUrl, sessionManager, interceptors });
  const client = createClient(KeyService, transport);
  return {
    name: "VerifyKey",
    close: () => sessionManager.abort(),
    async use(value) {
      const { verdict, rateLimit } = await client.verifyKey({ value, cost: 1 });
      if (verdict === Verdict.VALID) return { kind: "accepted" };
      if (verdict === Verdict.REVOKED) return { kind: "revoked" };
      if (verdict !== Verdict.RATE_LIMITED) throw new Error(`VerifyKey: verdict ${verdict}`);
      const { seconds = 0n, nanos = 0 } = rateLimit?.retryAfter ?? {};
      return { kind: "limited", retryAfterMs: Number(seconds) * 1_000 + nanos / 1e6 };
    },
  };
}
