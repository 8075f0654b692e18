import { fail, type Refusal, refusalFrom } from "../error.ts";
import type { AddressAllowanceView, Admission, Admit, RateReport } from "../run/admission.ts";
import { rateReportHeaders } from "../run/rate-report-headers.ts";
import { AdmittedRequest, type AnsweringParts, type Asked, type RestMethod } from "./admitted-request.ts";
import type { HttpDoor, HttpRequest, HttpResponse } from "./http.ts";
import { refusalResponse } from "./refusal-response.ts";
import type { Binding } from "./transcode/binding.ts";
import type { Match } from "./transcode/route-table.ts";

export interface RestDoorParts extends AnsweringParts {
  readonly methods: readonly RestMethod[];
  readonly admit: Admit;
  readonly allowance: AddressAllowanceView;
  /** Told of every refusal, for log and metrics. */
  readonly onRefusal: (refusal: Refusal, request: HttpRequest) => void;
}

/**
 * The REST door. It decides in the order of the contract, each step a full answer by itself: method and path, key,
 * limit, what the path names, media type, size, JSON and fields, the method's own work.
 */
export function createRestDoor(parts: RestDoorParts): HttpDoor {
  const methods = new Map(
    parts.transcoder.bindings.map((binding) => [binding, wired(parts.methods, binding)]),
  );

  return (request) => {
    const match = parts.transcoder.match(request.method, request.target);
    if (match.kind === "not_found") return refuse(parts, request, fail("NOT_FOUND"), undefined);
    if (match.kind !== "found") {
      const decision = parts.allowance.look(request.address);
      return refuse(parts, request, pathRefusal(match), decision && { policy: "address", decision });
    }
    const rest = methods.get(match.route.binding) ?? wired(parts.methods, match.route.binding);
    const asked = { request, route: match.route, rest };
    const admission = parts.admit(request, parts.allowance);
    return admission instanceof Promise
      ? enterLater(parts, asked, admission)
      : enter(parts, asked, admission);
  };
}

async function enterLater(
  parts: RestDoorParts,
  asked: Asked,
  admission: Promise<Admission>,
): Promise<HttpResponse> {
  return enter(parts, asked, await admission);
}

function enter(
  parts: RestDoorParts,
  asked: Asked,
  admission: Admission,
): HttpResponse | Promise<HttpResponse> {
  const { request } = asked;
  if (admission.kind === "refused") return refuse(parts, request, admission.refusal, admission.rate);
  const admitted = new AdmittedRequest(parts, asked, admission);
  const refused = (thrown: unknown) => refuse(parts, request, refusalFrom(thrown), admitted.rate());
  try {
    const answer = admitted.answer();
    return answer instanceof Promise ? answer.catch(refused) : answer;
  } catch (thrown) {
    return refused(thrown);
  }
}

function wired(methods: readonly RestMethod[], { method }: Binding): RestMethod {
  const rest = methods.find((each) => each.method === method);
  if (!rest) throw new Error(`No REST method is wired for ${method.toString()}`);
  return rest;
}

function pathRefusal(match: Exclude<Match, { kind: "found" | "not_found" }>): Refusal {
  if (match.kind === "method_not_allowed") {
    return fail("METHOD_NOT_ALLOWED", { metadata: { allow: match.allow.join(", ") } });
  }
  return fail("INVALID_ARGUMENT", {
    problem: "The path holds bytes that are not an escaped UTF-8 text. Write a literal % as %25.",
  });
}

function refuse(
  parts: RestDoorParts,
  request: HttpRequest,
  refusal: Refusal,
  rate: RateReport | undefined,
): HttpResponse {
  parts.onRefusal(refusal, request);
  return refusalResponse(refusal, {
    requestId: request.requestId,
    accept: request.header("accept"),
    rateHeaders: rateReportHeaders(rate, parts.clock),
  });
}
