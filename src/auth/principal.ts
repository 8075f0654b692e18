/** Who makes a call, as proved by the credential alone, never by a field of the request. */
export type Principal =
  | { readonly kind: "api_key"; readonly keyId: string; readonly teamId: string }
  | { readonly kind: "service" }
  | { readonly kind: "anyone" };

/** What a service method knows of the call beside its request message. */
export interface Call {
  readonly principal: Principal;
  readonly requestId: string;
  /** Aborted when the caller goes away, its deadline passes, or the drain's time is over. */
  readonly signal: AbortSignal;
}

/** How records name who did something: a member's e-mail, or "a service". */
export function actorOf(_principal: Principal): string {
  return "a service";
}
