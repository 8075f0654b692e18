import type { Anyone } from "../auth/principal.ts";
import type { RateReport } from "../limit/rate-limit-headers.ts";
import type { AddressAllowanceView, Applicant } from "./admission.ts";

/** A caller of a method that takes no credential, and what its address has left. */
export interface AnyoneAdmission {
  readonly kind: "admitted";
  readonly principal: Anyone;
  /** Undefined where the listener has no bound for addresses. */
  readonly rate?: RateReport;
  /** The numbers now, without spending. */
  readonly rateNow?: () => RateReport;
}

/** Admits every caller. What the method looks up is charged to the caller's address. */
export function admitAnyone(
  { address }: Pick<Applicant, "address">,
  { guard, look }: AddressAllowanceView,
): AnyoneAdmission {
  const principal: Anyone = { kind: "anyone", address, guard };
  const decision = look(address);
  if (!decision) return { kind: "admitted", principal };
  const rateNow = () => ({ policy: "address", decision: look(address) ?? decision }) as const;
  return { kind: "admitted", principal, rate: { policy: "address", decision }, rateNow };
}
