import type { Refusal } from "../refusal/refusal.ts";

/** Called once with the refusal with which the work must end. Does not throw. */
export type EndCall = (refusal: Refusal) => void;

/** Returns one call for several that wait for the same end, in their order. */
export function inTurn(before: EndCall | undefined, end: EndCall): EndCall {
  if (before === undefined) return end;
  return (refusal) => {
    before(refusal);
    end(refusal);
  };
}
