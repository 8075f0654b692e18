import type { Refusal } from "../refusal/refusal.ts";
import { clientName, type DeclaredClient } from "./declared-client.ts";

/** The caller, as the credential alone proves it, never a field of the request. */
export type Principal =
  | { readonly kind: "api_key"; readonly keyId: string; readonly teamId: string }
  | { readonly kind: "service"; readonly client?: DeclaredClient }
  | SessionPrincipal
  | { readonly kind: "anyone" };

/** A person who is signed in. */
export interface SessionPrincipal {
  readonly kind: "session";
  readonly sessionId: string;
  /** In lower case, and verified at sign-in. */
  readonly email: string;
}

/** What a service method knows of the call beside its request message. */
export interface Call {
  readonly principal: Principal;
  readonly requestId: string;
  /** Aborted when the caller goes away, its deadline passes, or the drain's time is over. */
  readonly signal: AbortSignal;
  /**
   * Calls `end` once, when `signal` would be aborted, with its reason; at once if it is already.
   * Costs less than a signal. May call it after the call's work has ended.
   */
  whenGone(end: (refusal: Refusal) => void): void;
  /**
   * Returns one entry of the request's metadata by its lower-case name, joined as by `headerOf`.
   * Costs less than `requestHeaders`.
   */
  header(name: string): string | undefined;
  /** The request's metadata. */
  readonly requestHeaders: Headers;
  /** The time left until the caller's deadline; undefined if the caller named none. */
  timeoutMs(): number | undefined;
  /** Metadata that is sent before the first message, also if the call is refused. */
  readonly responseHeaders: Headers;
  /** Metadata that is sent after the last message. REST sends it with the headers. */
  readonly responseTrailers: Headers;
}

/** The name of an actor in records: a member's e-mail, "the command line" or "a service". */
export function actorOf(principal: Principal): string {
  if (principal.kind === "session") return principal.email;
  const client = principal.kind === "service" ? principal.client : undefined;
  return client === undefined ? "a service" : clientName(client);
}
