import { z } from "zod";
import { bounds } from "../config.ts";
import type { HttpDoor, HttpRequest, HttpResponse } from "../edge/http.ts";
import { refusalResponse } from "../edge/refusal-response.ts";
import { screenHeaders } from "../edge/screen-headers.ts";
import { wholeBody } from "../edge/whole-body.ts";
import { fail, type Refusal, refusalFrom } from "../error.ts";
import { type LocalLinks, localOwner } from "./local-links.ts";
import type { Oidc, OidcOutcome } from "./oidc.ts";
import type { OidcStateCookie } from "./oidc-state-cookie.ts";
import { isOwnHost, isSameOrigin } from "./request-guards.ts";
import { readReturnPath } from "./return-path.ts";
import type { ScreenAddress } from "./screen-address.ts";
import { createSessionCookie } from "./session-cookie.ts";
import type { Sessions, SignedInUser } from "./sessions.ts";

/** How people prove who they are. */
export type SignInMethod =
  | { readonly kind: "local"; readonly links: LocalLinks }
  | { readonly kind: "oidc"; readonly oidc: Oidc; readonly stateCookie: () => OidcStateCookie };

export interface SignInDoorParts {
  readonly address: () => ScreenAddress;
  readonly sessions: Sessions;
  readonly method: SignInMethod;
  /** Answers every other path, and the documents of signing in. */
  readonly next: HttpDoor;
  /** Told of every refusal, for log and metrics. */
  readonly onRefusal: (refusal: Refusal, request: HttpRequest) => void;
}

/**
 * Signing in over HTTP: `GET /sign-in?return_to=` sends the browser to the issuer, or is a document where sign-in is
 * local or where it failed (`?error=`); `GET /sign-in/callback` takes it back; `POST /sign-in/code` swaps a one-time
 * code for a session.
 */
export function createSignInDoor(parts: SignInDoorParts): HttpDoor {
  return async (request) => {
    const [path = "", query = ""] = splitTarget(request.target);
    const step = stepOf(parts, { path, query: new URLSearchParams(query) });
    if (!step) return parts.next(request);
    try {
      if (!isOwnHost(headersOf(request), parts.address())) throw fail("MISDIRECTED_REQUEST");
      if (!step.methods.includes(request.method)) {
        throw fail("METHOD_NOT_ALLOWED", { metadata: { allow: step.methods.join(", ") } });
      }
      return await step.take(request, query);
    } catch (thrown) {
      return refuse(parts, request, refusalFrom(thrown));
    }
  };
}

interface Step {
  readonly methods: readonly string[];
  readonly take: (request: HttpRequest, query: string) => Promise<HttpResponse>;
}

function stepOf(
  parts: SignInDoorParts,
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
  parts: SignInDoorParts,
  { oidc, stateCookie }: OidcMethod,
  { request, query }: { request: HttpRequest; query: URLSearchParams },
): Promise<HttpResponse> {
  const returnTo = readReturnPath(query.get("return_to"), parts.address().origin);
  const begun = await oidc.begin(returnTo);
  if ("kind" in begun) return toErrorPage(parts, request, { outcome: begun, returnTo });
  return redirect(parts, request, { location: begun.location, cookies: [stateCookie().write(begun.state)] });
}

async function endAtIssuer(
  parts: SignInDoorParts,
  { oidc, stateCookie }: OidcMethod,
  { request, search }: { request: HttpRequest; search: string },
): Promise<HttpResponse> {
  const cookies = stateCookie();
  const state = cookies.read(request.header("cookie"));
  // Whatever comes of it, the state is used: the same answer of the issuer counts for nothing a second time.
  const cleared = [cookies.clear()];
  const outcome: OidcOutcome = state
    ? await oidc.complete(`?${search}`, state)
    : { kind: "refused", error: "expired", cause: new Error("no sign-in of this browser is under way") };
  const returnTo = state?.returnTo ?? "/";
  if (outcome.kind === "refused") return toErrorPage(parts, request, { outcome, returnTo, cookies: cleared });
  const session = await beginSession(parts, request, outcome.user);
  return redirect(parts, request, { location: returnTo, cookies: [...cleared, session] });
}

/** Not a refusal in JSON: it is a person who looks at the answer, and the page says it in words. */
function toErrorPage(
  parts: SignInDoorParts,
  request: HttpRequest,
  failed: { outcome: OidcOutcome; returnTo: string; cookies?: string[] },
): HttpResponse {
  const { outcome, returnTo, cookies = [] } = failed;
  if (outcome.kind !== "refused") throw new Error("a sign-in that succeeded has no error");
  const { error, cause } = outcome;
  // The one that is the operator's to put right counts as such, and not as one more person who was refused.
  parts.onRefusal(
    fail(error === "provider_unavailable" ? "UNAVAILABLE" : "SIGN_IN_FAILED", { cause }),
    request,
  );
  const query = new URLSearchParams({ error, return_to: returnTo });
  return redirect(parts, request, { location: `/sign-in?${query}`, cookies });
}

const codeForm = z.strictObject({ code: z.string() });

async function redeemCode(
  parts: SignInDoorParts,
  links: LocalLinks,
  request: HttpRequest,
): Promise<HttpResponse> {
  // Without a cookie too: nobody may be signed in as another without noticing.
  if (!isSameOrigin(headersOf(request), parts.address())) throw fail("CROSS_SITE_REQUEST");
  if (!/^application\/json\s*(;|$)/i.test(request.header("content-type") ?? "")) {
    throw fail("UNSUPPORTED_MEDIA_TYPE");
  }
  const body = await request.readBody(bounds.signInBodyBytesMax);
  const bytes = wholeBody(body, bounds.signInBodyBytesMax);
  const parsed = codeForm.safeParse(parseJson(bytes));
  if (!parsed.success || !links.redeem(parsed.data.code)) throw fail("INVALID_SIGN_IN_CODE");
  const cookie = await beginSession(parts, request, localOwner);
  return { status: 204, headers: [...plainHeaders(parts, request), "Set-Cookie", cookie], body: "" };
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(bytes).toString());
  } catch {
    // No code can be read from it, which is what is said of it.
    return undefined;
  }
}

/** A new session, and with it a new token, whatever the browser had before. */
async function beginSession(
  { address, sessions }: SignInDoorParts,
  request: HttpRequest,
  user: SignedInUser,
): Promise<string> {
  const cookie = createSessionCookie(address());
  const before = cookie.read(request.header("cookie"));
  const token = await sessions.begin(user, before.kind === "found" ? before.value : undefined);
  return cookie.write(token);
}

function redirect(
  parts: SignInDoorParts,
  request: HttpRequest,
  { location, cookies }: { location: string; cookies: readonly string[] },
): HttpResponse {
  const headers = [...plainHeaders(parts, request), "Location", location];
  for (const cookie of cookies) headers.push("Set-Cookie", cookie);
  return { status: 302, headers, body: "" };
}

function plainHeaders({ address }: SignInDoorParts, { requestId }: HttpRequest): string[] {
  return [...screenHeaders(address()), "Cache-Control", "no-store", "X-Request-Id", requestId];
}

function refuse({ onRefusal }: SignInDoorParts, request: HttpRequest, refusal: Refusal): HttpResponse {
  onRefusal(refusal, request);
  const { requestId } = request;
  return refusalResponse(refusal, { requestId, accept: request.header("accept"), rateHeaders: [] });
}

function headersOf(request: HttpRequest) {
  return (name: string) => request.header(name);
}

function splitTarget(target: string): [string, string] {
  const mark = target.indexOf("?");
  return mark < 0 ? [target, ""] : [target.slice(0, mark), target.slice(mark + 1)];
}
