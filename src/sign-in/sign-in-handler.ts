import { z } from "zod";
import type { AuditLog } from "../audit/audit-log.ts";
import type { ChangeFacts } from "../audit/pending-change.ts";
import { bounds } from "../bounds.ts";
import type { Answer, HttpHandler, HttpRequest, Refused, WholeResponse } from "../http/handler.ts";
import { pathOf, queryOf } from "../http/request-head.ts";
import { screenHeaders } from "../http/screen/headers.ts";
import { wholeBody } from "../http/whole-body.ts";
import { fail, type Refusal, refusalFrom } from "../refusal/refusal.ts";
import { type LocalLinks, localOwner } from "./local-links.ts";
import type { Oidc, OidcOutcome } from "./oidc.ts";
import type { OidcStateCookie } from "./oidc-state-cookie.ts";
import { isOwnHost, isSameOrigin } from "./request-guards.ts";
import { readReturnPath } from "./return-path.ts";
import type { ScreenAddress } from "./screen-address.ts";
import { createSessionCookie } from "./session-cookie.ts";
import type { Sessions, SignedInUser } from "./sessions.ts";

/** How people prove their identity. */
export type SignInMethod =
  | { readonly kind: "local"; readonly links: LocalLinks }
  | { readonly kind: "oidc"; readonly oidc: Oidc; readonly stateCookie: () => OidcStateCookie };

export interface SignInHandlerParts {
  readonly address: () => ScreenAddress;
  readonly sessions: Sessions;
  readonly method: SignInMethod;
  readonly audit: Pick<AuditLog, "during" | "refused">;
  /** Gets the requests for every other path, and for the screen's sign-in pages. */
  readonly next: HttpHandler;
}

/**
 * Serves sign-in over HTTP. `GET /sign-in?return_to=` redirects the browser to the issuer; it is a
 * page of the screen if sign-in is local or has failed (`?error=`). `GET /sign-in/callback` is
 * where the issuer sends the browser back. `POST /sign-in/code` exchanges a one-time code for a
 * session.
 */
export function createSignInHandler(parts: SignInHandlerParts): HttpHandler {
  return async (request) => {
    const query = queryOf(request.target);
    const step = stepOf(parts, { path: pathOf(request.target), query: new URLSearchParams(query) });
    if (!step) return parts.next(request);
    if (!isOwnHost(headersOf(request), parts.address())) throw fail("MISDIRECTED_REQUEST");
    if (!step.methods.includes(request.method)) {
      throw fail("METHOD_NOT_ALLOWED", { metadata: { allow: step.methods.join(", ") } });
    }
    return await step.take(request, query);
  };
}

interface Step {
  readonly methods: readonly string[];
  readonly take: (request: HttpRequest, query: string) => Promise<Answer>;
}

function stepOf(
  parts: SignInHandlerParts,
  { path, query }: { path: string; query: URLSearchParams },
): Step | undefined {
  const { method } = parts;
  if (method.kind === "local") {
    if (path !== "/sign-in/code") return undefined;
    return { methods: ["POST"], take: (request) => redeemCode(parts, method.links, request) };
  }
  if (path === "/sign-in" && !query.has("error")) {
    return { methods: ["GET"], take: (request) => beginAtIssuer(parts, method, { request, query }) };
  }
  if (path !== "/sign-in/callback") return undefined;
  return { methods: ["GET"], take: (request, search) => endAtIssuer(parts, method, { request, search }) };
}

type OidcMethod = Extract<SignInMethod, { kind: "oidc" }>;

async function beginAtIssuer(
  parts: SignInHandlerParts,
  { oidc, stateCookie }: OidcMethod,
  { request, query }: { request: HttpRequest; query: URLSearchParams },
): Promise<Answer> {
  const returnTo = readReturnPath(query.get("return_to"), parts.address().origin);
  const begun = await oidc.begin(returnTo);
  if ("kind" in begun) return toErrorPage(parts, request, { outcome: begun, returnTo });
  return redirect(parts, request, { location: begun.location, cookies: [stateCookie().write(begun.state)] });
}

async function endAtIssuer(
  parts: SignInHandlerParts,
  { oidc, stateCookie }: OidcMethod,
  { request, search }: { request: HttpRequest; search: string },
): Promise<Answer> {
  const cookies = stateCookie();
  const state = cookies.read(request.header("cookie"));
  // The state is used up whatever the outcome, so that the issuer's response can't be used a second
  // time.
  const cleared = [cookies.clear()];
  const outcome: OidcOutcome = state
    ? await oidc.complete(`?${search}`, state)
    : { kind: "refused", error: "expired", cause: new Error("no sign-in of this browser is under way") };
  const returnTo = state?.returnTo ?? "/";
  if (outcome.kind === "refused") return toErrorPage(parts, request, { outcome, returnTo, cookies: cleared });
  const session = await beginSession(parts, request, outcome.user);
  return redirect(parts, request, { location: returnTo, cookies: [...cleared, session] });
}

/**
 * A person reads this response, so it is a page that explains the error and not a refusal in JSON.
 */
function toErrorPage(
  parts: SignInHandlerParts,
  request: HttpRequest,
  failed: { outcome: OidcOutcome; returnTo: string; cookies?: string[] },
): Refused {
  const { outcome, returnTo, cookies = [] } = failed;
  if (outcome.kind !== "refused") throw new Error("a sign-in that succeeded has no error");
  const { error, cause } = outcome;
  // An error that the operator must fix is counted as UNAVAILABLE, not as a failed sign-in.
  const refusal = fail(error === "provider_unavailable" ? "UNAVAILABLE" : "SIGN_IN_FAILED", { cause });
  noteFailed(parts, request, refusal);
  const query = new URLSearchParams({ error, return_to: returnTo });
  return { refusal, response: redirect(parts, request, { location: `/sign-in?${query}`, cookies }) };
}

const codeForm = z.strictObject({ code: z.string() });

async function redeemCode(
  parts: SignInHandlerParts,
  links: LocalLinks,
  request: HttpRequest,
): Promise<WholeResponse> {
  try {
    await requireCode(parts, links, request);
  } catch (thrown) {
    noteFailed(parts, request, refusalFrom(thrown));
    throw thrown;
  }
  const cookie = await beginSession(parts, request, localOwner);
  return {
    status: 204,
    headers: [...plainHeaders(parts, request), "Set-Cookie", cookie],
    body: "",
    uncounted: true,
  };
}

/** Throws the refusal of a request that does not bring a code which is good. */
async function requireCode(
  parts: SignInHandlerParts,
  links: LocalLinks,
  request: HttpRequest,
): Promise<void> {
  // Checked even if there is no cookie, because another site must not sign a person in as somebody
  // else.
  if (!isSameOrigin(headersOf(request), parts.address())) throw fail("CROSS_SITE_REQUEST");
  if (!/^application\/json\s*(;|$)/i.test(request.header("content-type") ?? "")) {
    throw fail("UNSUPPORTED_MEDIA_TYPE", { metadata: { accept: "application/json" } });
  }
  const body = await request.readBody(bounds.signInBodyBytesMax);
  const bytes = wholeBody(body, bounds.signInBodyBytesMax);
  const parsed = codeForm.safeParse(parseJson(bytes));
  if (!parsed.success || !links.redeem(parsed.data.code)) throw fail("INVALID_SIGN_IN_CODE");
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(bytes).toString());
  } catch {
    // Without a code the request is refused as INVALID_SIGN_IN_CODE.
    return undefined;
  }
}

/** Begins a session with a new token and ends the one that the browser had before. */
async function beginSession(
  { address, sessions, audit }: SignInHandlerParts,
  request: HttpRequest,
  user: SignedInUser,
): Promise<string> {
  const cookie = createSessionCookie(address());
  const before = cookie.read(request.header("cookie"));
  const previous = before.kind === "found" ? before.value : undefined;
  const token = await audit.during(signInFacts(request, user.email), () => sessions.begin(user, previous));
  return cookie.write(token);
}

/** Nobody has proven who they are, and anybody can fail as often as they like. */
function noteFailed({ audit }: SignInHandlerParts, request: HttpRequest, refusal: Refusal): void {
  audit.refused(signInFacts(request, "unknown"), refusal, { isUnknown: true });
}

function signInFacts({ address, requestId }: HttpRequest, actor: string): ChangeFacts {
  const subject = { teamId: "", target: "", detail: "" };
  return { actor, address, channel: "screen", action: "session.sign_in", ...subject, requestId };
}

function redirect(
  parts: SignInHandlerParts,
  request: HttpRequest,
  { location, cookies }: { location: string; cookies: readonly string[] },
): WholeResponse {
  const headers = [...plainHeaders(parts, request), "Location", location];
  for (const cookie of cookies) headers.push("Set-Cookie", cookie);
  return { status: 302, headers, body: "", uncounted: true };
}

function plainHeaders({ address }: SignInHandlerParts, { requestId }: HttpRequest): string[] {
  return [...screenHeaders(address()), "Cache-Control", "no-store", "X-Request-Id", requestId];
}

function headersOf(request: HttpRequest) {
  return (name: string) => request.header(name);
}
