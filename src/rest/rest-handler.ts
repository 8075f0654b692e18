import type { Match } from "#transcode/route-table.ts";
import type { AddressAllowanceView, Admit } from "../admission/admission.ts";
import type { Answer, HttpHandler, Refused } from "../http/handler.ts";
import { type RateReport, rateReportHeaders } from "../limit/rate-limit-headers.ts";
import { fail, type Refusal } from "../refusal/refusal.ts";
import { AdmittedRequest, type AnsweringParts, type Asked } from "./admitted-request.ts";
import { type RestAdmission, type RestMethod, type RestPolicy, wiredMethod } from "./wired-method.ts";

export interface RestHandlerParts extends AnsweringParts {
  readonly methods: readonly RestMethod[];
  readonly policy: RestPolicy;
  readonly admit: Admit;
  readonly allowance: AddressAllowanceView;
  /** How many bytes a body may have, unless the policy says less of its method. */
  readonly bodyBytesMax: number;
}

/**
 * The REST handler. It checks in the order that the API promises, and the first failure is the
 * response: method and path, key and limit where the policy asks for a key, the resource in the
 * path, media type, size, JSON and fields, then the method's own work.
 */
export function createRestHandler(parts: RestHandlerParts): HttpHandler {
  const methods = new Map(parts.transcoder.bindings.map((binding) => [binding, wiredMethod(parts, binding)]));

  return (request) => {
    const match = parts.transcoder.match(request.method, request.target);
    if (match.kind === "not_found") return { refusal: fail("NOT_FOUND") };
    if (match.kind !== "found") {
      const decision = parts.allowance.look(request.address);
      return refused(parts, pathRefusal(match), decision && { policy: "address", decision });
    }
    const rest = methods.get(match.route.binding) ?? wiredMethod(parts, match.route.binding);
    const asked = { request, route: match.route, rest };
    const admission = rest.admit(request, parts.allowance);
    return admission instanceof Promise
      ? enterLater(parts, asked, admission)
      : enter(parts, asked, admission);
  };
}

async function enterLater(
  parts: RestHandlerParts,
  asked: Asked,
  admission: Promise<RestAdmission>,
): Promise<Answer> {
  return enter(parts, asked, await admission);
}

function enter(parts: RestHandlerParts, asked: Asked, admission: RestAdmission): Answer | Promise<Answer> {
  if (admission.kind === "refused") return refused(parts, admission.refusal, admission.rate);
  const admitted = new AdmittedRequest(parts, asked, admission);
  const failed = (thrown: unknown) => refused(parts, admitted.refusalOf(thrown), admitted.rate());
  try {
    const answer = admitted.answer();
    return answer instanceof Promise ? answer.catch(failed) : answer;
  } catch (thrown) {
    return failed(thrown);
  }
}

function pathRefusal(match: Exclude<Match, { kind: "found" | "not_found" }>): Refusal {
  if (match.kind === "method_not_allowed") {
    return fail("METHOD_NOT_ALLOWED", { metadata: { allow: match.allow.join(", ") } });
  }
  return fail("INVALID_ARGUMENT", {
    problem: "The path has a percent escape that is not valid UTF-8. Write a literal % as %25.",
  });
}

function refused({ clock }: RestHandlerParts, refusal: Refusal, rate: RateReport | undefined): Refused {
  return { refusal, headers: rateReportHeaders(rate, clock) };
}
