/** The pages and redirects of `/sign-in`, and what protects them against other sites. */

import { z } from "zod";
import type { AuditLog } from "../audit/audit-log.ts";
import type { ChangeFacts } from "../audit/pending-change.ts";
import { bounds } from "../bounds.ts";
import {
  type Answer,
  type HttpHandler,
  type HttpRequest,
  type Refused,
  type WholeResponse,
  wholeBody,
} from "../http/handler.ts";
import { pathOf, queryOf } from "../http/request-head.ts";
import { screenHeaders } from "../http/screen.ts";
import { fail, type Refusal, refusalFrom } from "../refusal/refusal.ts";
import { createSessionCookie, type OidcStateCookies } from "./cookies.ts";
import { type LocalLinks, localOwner } from "./local-links.ts";
import type { Oidc } from "./oidc.ts";
import { expired, type RefusedOutcome, type SignInError } from "./oidc-failure.ts";
import type { ScreenAddress } from "./screen-address.ts";
import type { Sessions, SignedInUser } from "./sessions.ts";

/**
 * What a person with this e-mail may do on the screen. Who belongs to no team, or has no preview
 * access, is signed in all the same, and told so there.
 */
export type AccessOf = (
  email: string,
) => Promise<{ readonly isMember: boolean; readonly hasPreview: boolean }>;

/** How people prove their identity. */
export type SignInMethod =
  | { readonly kind: "local"; readonly links: LocalLinks }
  | { readonly kind: "oidc"; readonly oidc: Oidc; readonly stateCookies: () => OidcStateCookies };

export interface SignInHandlerParts {
  readonly address: () => ScreenAddress;
  readonly sessions: Sessions;
  readonly method: SignInMethod;
  readonly audit: Pick<AuditLog, "during" | "refused">;
  readonly accessOf: AccessOf;
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
  { oidc, stateCookies }: OidcMethod,
  { request, query }: { request: HttpRequest; query: URLSearchParams },
): Promise<Answer> {
  const returnTo = readReturnPath(query.get("return_to"), parts.address().origin);
  const begun = await oidc.begin(returnTo);
  if ("kind" in begun) {
    const location = errorPage(begun.error, returnTo);
    return refusedTo(parts, request, { outcome: begun, location, cookies: [] });
  }
  const cookies = stateCookies().write(begun.state, request.header("cookie"));
  return redirect(parts, request, { location: begun.location, cookies });
}

async function endAtIssuer(
  parts: SignInHandlerParts,
  { oidc, stateCookies }: OidcMethod,
  { request, search }: { request: HttpRequest; search: string },
): Promise<Answer> {
  const cookies = stateCookies();
  const sent = new URLSearchParams(search).get("state") ?? "";
  const state = cookies.read(request.header("cookie"), sent);
  // This state is used up whatever the outcome, so that the issuer's response can't be used a
  // second time. The sign-ins of other tabs go on.
  const cleared = cookies.clear(sent);
  const outcome = state ? await oidc.complete(`?${search}`, state) : expired();
  const returnTo = state?.returnTo ?? "/";
  const live = await findLive(parts, request);
  if (outcome.kind === "refused") {
    const isOver = !live || aboutThePerson.has(outcome.error);
    const location = isOver ? errorPage(outcome.error, returnTo) : returnTo;
    return refusedTo(parts, request, { outcome, location, cookies: cleared });
  }
  if (live && isSameUser(live.user, outcome.user)) {
    // Another tab has signed this person in. To end that session would sign the other tab out.
    await parts.sessions.noteActivity(live.sessionId);
    return redirect(parts, request, { location: returnTo, cookies: cleared });
  }
  const session = await beginSession(parts, request, outcome.user);
  return redirect(parts, request, { location: returnTo, cookies: [...cleared, session] });
}

/** The page tells of these also in a browser with a live session: it may be another person's. */
const aboutThePerson: ReadonlySet<SignInError> = new Set(["email_not_verified", "email_taken"]);

/** The session that the browser has; undefined if it has none, or that is over. */
async function findLive({ address, sessions }: SignInHandlerParts, request: HttpRequest) {
  const cookie = createSessionCookie(address()).read(request.header("cookie"));
  const principal = cookie.kind === "found" ? await sessions.find(cookie.value) : undefined;
  const user = principal && (await sessions.userOf(principal.sessionId));
  return principal && user && { sessionId: principal.sessionId, user };
}

function isSameUser(one: SignedInUser, other: SignedInUser): boolean {
  return one.issuer === other.issuer && one.subject === other.subject && one.email === other.email;
}

/** A person reads it: a page that explains the error, and not a refusal in JSON. */
function errorPage(error: SignInError, returnTo: string): string {
  return `/sign-in?${new URLSearchParams({ error, return_to: returnTo })}`;
}

function refusedTo(
  parts: SignInHandlerParts,
  request: HttpRequest,
  { outcome, location, cookies }: { outcome: RefusedOutcome; location: string; cookies: readonly string[] },
): Refused {
  const { error, cause, detail } = outcome;
  // An error that the operator must fix is counted as UNAVAILABLE, not as a failed sign-in.
  const refusal = fail(error === "provider_unavailable" ? "UNAVAILABLE" : "SIGN_IN_FAILED", { cause });
  noteFailed(parts, request, { refusal, detail });
  return { refusal, response: redirect(parts, request, { location, cookies }) };
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
    noteFailed(parts, request, { refusal: refusalFrom(thrown), detail: "" });
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
  { address, sessions, audit, accessOf }: SignInHandlerParts,
  request: HttpRequest,
  user: SignedInUser,
): Promise<string> {
  const cookie = createSessionCookie(address());
  const before = cookie.read(request.header("cookie"));
  const previous = before.kind === "found" ? before.value : undefined;
  const { isMember, hasPreview } = await accessOf(user.email);
  // The operator's log says why a person who has signed in sees no keys.
  const detail = [isMember ? [] : "member=false", hasPreview ? [] : "preview=false"].flat().join(" ");
  const facts = signInFacts(request, { actor: user.email, detail });
  const token = await audit.during(facts, () => sessions.begin(user, previous));
  return cookie.write(token);
}

/** Nobody has proven who they are, and anybody can fail as often as they like. */
function noteFailed(
  { audit }: SignInHandlerParts,
  request: HttpRequest,
  { refusal, detail }: { readonly refusal: Refusal; readonly detail: string },
): void {
  const facts = signInFacts(request, { actor: "unknown", detail });
  audit.refused(facts, refusal, { isUnknown: true, keepsDetail: true });
}

function signInFacts(
  { address, requestId }: HttpRequest,
  { actor, detail }: { readonly actor: string; readonly detail: string },
): ChangeFacts {
  const action = "session.sign_in";
  return { actor, address, channel: "screen", action, teamId: "", target: "", detail, requestId };
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

const pathCharactersMax = 1_024;

/**
 * Returns the path to open after sign-in: a path of the screen with its query, or "/" if another
 * value was asked for. It is never on another origin (an open redirect), and never a sign-in path,
 * which would be an endless loop.
 */
export function readReturnPath(value: string | null | undefined, origin: string): string {
  if (!value?.startsWith("/") || value.length > pathCharactersMax || !URL.canParse(value, origin)) return "/";
  const url = new URL(value, origin);
  // In a Location header a path that begins with two slashes would mean another host.
  if (url.origin !== origin || url.pathname.startsWith("//")) return "/";
  return /^\/sign-in(\/|$)/.test(url.pathname) ? "/" : `${url.pathname}${url.search}`;
}

/**
 * Returns a header's value by its lower-case name; values of a repeated header are joined by ", ".
 */
export type HeaderLookup = (name: string) => string | undefined;

/**
 * True if the request was sent to one of the screen's own hosts. With DNS rebinding a hostile page
 * has a name of its own that resolves to this machine, so its script is same-origin, and only the
 * host shows the attack. Guards the screen, sign-in and session RPCs, but never `/api/`, where the
 * API key is proof enough.
 */
export function isOwnHost(header: HeaderLookup, address: ScreenAddress): boolean {
  // HTTP/2 has the host in `:authority`. If a request has both, both must be ours.
  const sent = [header("host"), header(":authority")].filter((host) => host !== undefined);
  return sent.length > 0 && sent.every((host) => address.hosts.has(normalHost(host, address)));
}

/**
 * True if a request that may change something comes from the screen itself. The browser says so,
 * and scripts can't forge it: by `Sec-Fetch-Site`, or, if the browser does not send that, by an
 * `Origin` that is exactly the host's own. False if neither is sent. For every unsafe request with
 * a cookie (W3C Fetch Metadata; RFC 6454, section 7).
 */
export function isSameOrigin(header: HeaderLookup, address: ScreenAddress): boolean {
  const site = header("sec-fetch-site");
  if (site !== undefined) return site === "same-origin";
  const host = header("host") ?? header(":authority");
  if (host === undefined) return false;
  return header("origin") === `${address.secure ? "https" : "http"}://${normalHost(host, address)}`;
}

function normalHost(host: string, { secure }: ScreenAddress): string {
  return host.toLowerCase().replace(secure ? /:443$/ : /:80$/, "");
}
