import { type ContextKey, createContextKey, type HandlerContext } from "@connectrpc/connect";
import type { Principal } from "../auth/principal.ts";
import type { RateReport } from "../run/admission.ts";

/** What the listener knows of a request before Connect reads it. */
export interface Caller {
  /** Every value of `Authorization`: Connect would see the first alone. */
  readonly authorizations: readonly string[];
  readonly address: string;
  /** A header's value by its lower-case name, `:authority` included. */
  readonly header: (name: string) => string | undefined;
  readonly requestId: string;
}

/** Set by the listener for every request. */
export const callerKey: ContextKey<Caller> = createContextKey<Caller>({
  authorizations: [],
  address: "",
  header: () => undefined,
  requestId: "",
});

/** Set by the gate: who calls. */
export const principalKey: ContextKey<Principal> = createContextKey<Principal>({ kind: "anyone" });

/** Set by the gate where a team's limit was spent: the team's numbers now. */
export const rateKey: ContextKey<(() => RateReport) | undefined> = createContextKey<
  (() => RateReport) | undefined
>(undefined);

/** Which call it is, for those who are told what came of it. */
export function callFacts({ values, method }: HandlerContext) {
  return { requestId: values.get(callerKey).requestId, method };
}
