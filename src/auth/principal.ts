/** Who makes a call, as proved by the credential alone, never by a field of the request. */
export type Principal =
  | { readonly kind: "api_key"; readonly keyId: string; readonly teamId: string }
  | { readonly kind: "service" }
  | SessionPrincipal
  | { readonly kind: "anyone" };

/** A person who is signed in. */
export interface SessionPrincipal {
  readonly kind: "session";
  readonly sessionId: string;
  /** In lower case, and verified by who signed the person in. */
  readonly email: string;
}

/** What a service method knows of the call beside its request message. */
export interface Call {
  readonly principal: Principal;
  readonly requestId: string;
  /** Aborted when the caller goes away, its deadline passes, or the drain's time is over. */
  readonly signal: AbortSignal;
  /** Adds a `Set-Cookie` to the answer, where the door's callers are browsers. */
  readonly setCookie?: (cookie: string) => void;
}

/** How records name who did something: a member's e-mail, or "a service". */
export function actorOf(principal: Principal): string {
  return principal.kind === "session" ? principal.email : "a service";
}
