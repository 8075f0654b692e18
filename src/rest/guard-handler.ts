/**
 * The guard: a proxy asks whether the request of its caller may pass. It is the admission of a run,
 * without a run: any method, any suffix of the path, no body, and an answer in headers.
 */

import type { AddressAllowanceView, Admit } from "../admission/admission.ts";
import type { Clock } from "../base/clock.ts";
import type { Answer, HttpHandler, HttpRequest, Refused } from "../http/handler.ts";
import { publicCode, refusalAnswer } from "../http/refusal-response.ts";
import { type RateReport, rateReportHeaders } from "../limit/rate-limit-headers.ts";
import { rowOf } from "../refusal/reasons.ts";
import { fail, type Refusal, refusalFrom } from "../refusal/refusal.ts";
import type { FindApp } from "../run/runner.ts";

export interface GuardHandlerParts {
  readonly clock: Clock;
  readonly admit: Admit;
  readonly allowance: AddressAllowanceView;
  readonly findApp: FindApp;
  /** Called with the app of each request that may pass. */
  readonly onPassed: (appId: string) => void;
  /** Gets the requests for every other path. */
  readonly next: HttpHandler;
}

/**
 * Answers at `/api/apps/{app_id}/guard` and below. It checks in the order of a run: key and limit,
 * then the app. What follows in the target is the caller's, so it is neither decoded nor checked.
 */
export function createGuardHandler(parts: GuardHandlerParts): HttpHandler {
  return (request) => {
    const appId = guardPath.exec(request.target)?.[1];
    return appId === undefined ? parts.next(request) : answer(parts, request, appId);
  };
}

/** An id with an escape, and `guard` in another spelling, are other paths. */
const guardPath = /^\/api\/apps\/([^/?%]+)\/guard(?![^/?])/;

async function answer(parts: GuardHandlerParts, request: HttpRequest, appId: string): Promise<Answer> {
  request.leaveBody();
  const admission = await parts.admit(request, parts.allowance);
  if (admission.kind === "refused") return refused(parts, request, admission);
  const { principal, plan, rate } = admission;
  try {
    const app = await parts.findApp(principal, appId);
    if (request.notes) request.notes.appId = app.id;
    if (app.backend.kind !== "guard") throw notGuarded();
    parts.onPassed(app.id);
  } catch (thrown) {
    return refused(parts, request, { refusal: refusalFrom(thrown), rate });
  }
  const headers = rateReportHeaders(rate, parts.clock);
  headers.push("X-Keyrun-Team", principal.teamId, "X-Keyrun-Key", principal.keyId);
  headers.push("X-Keyrun-App", appId, "X-Keyrun-Plan", plan);
  headers.push("X-Request-Id", request.requestId, "Cache-Control", "no-store");
  if (wantsDenials(request)) headers.push("X-Keyrun-Status", "200");
  return { status: 200, headers, body: "" };
}

function notGuarded(): Refusal {
  const problem =
    "This app is no service behind a proxy: it is run, with POST /api/apps/<app_id>/run. Create an app with `--backend guard` for the proxy.";
  return fail("INVALID_ARGUMENT", { param: "app_id", problem });
}

/**
 * Whether the proxy takes every refusal for a 403, as nginx does: it makes a 500 of its own of
 * anything but 401 and 403. The true status is then in a header.
 */
function wantsDenials(request: HttpRequest): boolean {
  return request.header("x-keyrun-denials") === "403";
}

function refused(
  { clock }: GuardHandlerParts,
  request: HttpRequest,
  { refusal, rate }: { readonly refusal: Refusal; readonly rate: RateReport | undefined },
): Refused {
  const headers = [...rateReportHeaders(rate, clock), "Cache-Control", "no-store"];
  if (!wantsDenials(request)) return { refusal, headers };
  const { httpStatus } = rowOf(refusal.reason);
  headers.push("X-Keyrun-Status", String(httpStatus), "X-Keyrun-Code", publicCode(refusal));
  const response = refusalAnswer(refusal, request, { form: "json", rateHeaders: headers });
  return { refusal, response: { ...response, status: httpStatus === 401 ? 401 : 403 } };
}
