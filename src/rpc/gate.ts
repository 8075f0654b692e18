import type { DescMethod } from "@bufbuild/protobuf";
import { readBearer } from "../auth/credential.ts";
import { credentialOf, type Listener } from "../auth/policy.ts";
import type { Principal } from "../auth/principal.ts";
import { fail, type Refusal, refusalFrom } from "../error.ts";
import type { AddressAllowanceView, Admit, RateReport } from "../run/admission.ts";
import type { SessionAccess } from "../signin/session-access.ts";
import type { Caller } from "./caller.ts";

export interface GateParts {
  readonly listener: Listener;
  readonly admit: Admit;
  readonly allowance: AddressAllowanceView;
  readonly isServiceToken: (presented: string) => boolean;
  /** Undefined where nobody can sign in. */
  readonly sessions: SessionAccess | undefined;
}

/** Who calls, or what the call is refused for; with the numbers of the limit that was asked, if one was. */
export type Passage =
  | {
      readonly kind: "admitted";
      readonly principal: Principal;
      readonly rate?: RateReport;
      /** The same numbers, at the moment it is called. */
      readonly rateNow?: () => RateReport;
    }
  | { readonly kind: "refused"; readonly refusal: Refusal; readonly rate?: RateReport | undefined };

/**
 * What every call passes before its body is read, whatever door it came to: the policy's row, the credential it asks
 * for, and for runs the same admission that the REST door calls. Never throws or rejects.
 */
export type Gate = (method: DescMethod, caller: Caller) => Passage | Promise<Passage>;

export function createGate(parts: GateParts): Gate {
  return (method, caller) => {
    try {
      switch (credentialOf(method, parts.listener)) {
        case undefined:
          throw fail("UNIMPLEMENTED");
        case "api_key":
          return parts.admit(caller, parts.allowance);
        case "service":
          return admitService(parts, caller);
        case "session":
          return admitSession(parts, caller, { needsPreview: false });
        case "preview_session":
          return admitSession(parts, caller, { needsPreview: true });
        case "none":
          return { kind: "admitted", principal: { kind: "anyone" } };
      }
    } catch (thrown) {
      return { kind: "refused", refusal: refusalFrom(thrown) };
    }
  };
}

function admitService({ isServiceToken }: GateParts, { authorizations }: Caller): Passage {
  const credential = readBearer(authorizations);
  if (credential.kind === "missing") throw fail("MISSING_CREDENTIAL");
  if (credential.kind !== "bearer" || !isServiceToken(credential.token)) throw fail("INVALID_CREDENTIAL");
  return { kind: "admitted", principal: { kind: "service" } };
}

/** Cookies are read here alone, and here nothing else is: no key and no token counts in a session's place. */
async function admitSession(
  { listener, sessions }: GateParts,
  caller: Caller,
  { needsPreview }: { needsPreview: boolean },
): Promise<Passage> {
  try {
    if (listener === "internal") {
      throw fail(caller.authorizations.length === 0 ? "MISSING_CREDENTIAL" : "INVALID_CREDENTIAL");
    }
    if (!sessions) throw fail("UNIMPLEMENTED");
    const principal = await sessions.authenticate((name) => caller.header(name));
    if (needsPreview) await sessions.requirePreview(principal);
    return { kind: "admitted", principal };
  } catch (thrown) {
    return { kind: "refused", refusal: refusalFrom(thrown) };
  }
}
