import { type ListenerName, leakBounds } from "#src/auth/policy.ts";
import { bounds } from "#src/bounds.ts";
import type { Entry } from "#src/metrics/metrics.ts";
import type { Reason } from "#src/refusal/reasons.ts";
import { type Ask, type HttpVersion, http1, http2 } from "../../harness/exchange.ts";
import { secretQuery } from "../../harness/protocols.ts";
import { loggedRequest, type RefusalCase } from "./refusal-case.ts";
import { oidcOrigin, type RefusalWorld } from "./world.ts";

/** A request that is neither an RPC nor a valid run, over both versions of HTTP. */
interface HttpRefusal {
  readonly reason: Reason;
  readonly what?: string;
  readonly method: string;
  readonly path: string;
  readonly host?: string;
  readonly headers?: (world: RefusalWorld) => Readonly<Record<string, string>>;
  readonly body?: string | ((world: RefusalWorld) => string);
  /** Instead of the one that no line of the log may tell. */
  readonly query?: string;
}

const json = { "content-type": "application/json" };
const sameOrigin = () => ({ ...json, "sec-fetch-site": "same-origin" });

const onPublic: readonly HttpRefusal[] = [
  ...["/nowhere", "/api/apps/echo", "/index.html"].map((path) => ({
    reason: "NOT_FOUND" as const,
    method: "GET",
    path,
  })),
  ...["/healthz", "/readyz", "/openapi.json", "/", "/settings", "/assets/main-abc.js"].map((path) => ({
    reason: "METHOD_NOT_ALLOWED" as const,
    method: "POST",
    path,
  })),
  ...["/api/apps/echo/run", "/api/apps/echo/stream"].map((path) => ({
    reason: "METHOD_NOT_ALLOWED" as const,
    method: "GET",
    path,
  })),
  {
    reason: "METHOD_NOT_ALLOWED",
    what: "told as RFC 9457 has it",
    method: "GET",
    path: "/api/apps/echo/run",
    headers: () => ({ accept: "application/problem+json" }),
  },
  ...["/api/runs/run_3kd09vbn2m8t5xq7w1zs6hcf", "/api/runs/nowhere"].map((path) => ({
    reason: "RUN_NOT_FOUND" as const,
    method: "GET",
    path,
    query: "?wait=1s",
    headers: ({ key }: RefusalWorld) => ({ authorization: `Bearer ${key.value}` }),
  })),
  { reason: "METHOD_NOT_ALLOWED", method: "GET", path: "/sign-in/code" },
  ...["/api/apps/%ff/run", "/api/apps/%ff/stream"].map((path) => ({
    reason: "INVALID_ARGUMENT" as const,
    what: "a path that is no text",
    method: "POST",
    path,
  })),
  ...["/", "/sign-in", "/assets/main-abc.js"].map((path) => ({
    reason: "MISDIRECTED_REQUEST" as const,
    method: "GET",
    path,
    host: "evil.example",
  })),
  { reason: "MISDIRECTED_REQUEST", method: "POST", path: "/sign-in/code", host: "evil.example" },
  { reason: "CROSS_SITE_REQUEST", method: "POST", path: "/sign-in/code", headers: () => json, body: "{}" },
  {
    reason: "UNSUPPORTED_MEDIA_TYPE",
    method: "POST",
    path: "/sign-in/code",
    headers: () => ({ ...sameOrigin(), "content-type": "text/plain" }),
    body: "{}",
  },
  {
    reason: "REQUEST_TOO_LARGE",
    method: "POST",
    path: "/sign-in/code",
    headers: sameOrigin,
    body: " ".repeat(bounds.signInBodyBytesMax + 1),
  },
  {
    reason: "INVALID_SIGN_IN_CODE",
    method: "POST",
    path: "/sign-in/code",
    headers: sameOrigin,
    body: '{"code":"used"}',
  },
];

/** Reports of leaked keys. The path takes no query. */
const reports: readonly HttpRefusal[] = [
  { reason: "METHOD_NOT_ALLOWED", method: "GET" },
  { reason: "UNSUPPORTED_MEDIA_TYPE", headers: () => ({ "content-type": "text/plain" }), body: "x" },
  { reason: "REQUEST_TOO_LARGE", body: " ".repeat(leakBounds.reportBytesMax + 1) },
  { reason: "INVALID_JSON", body: "{" },
  { reason: "INVALID_ARGUMENT", what: "no key", body: "{}" },
  {
    reason: "INVALID_ARGUMENT",
    what: "a cut key",
    body: ({ key }: RefusalWorld) => JSON.stringify({ value: key.value.slice(0, -1) }),
  },
  {
    reason: "KEY_NOT_FOUND",
    what: "an unknown key",
    body: ({ keyrun }: RefusalWorld) => JSON.stringify({ value: keyrun.unknownKey() }),
  },
].map((refusal) => ({
  ...{ method: "POST", path: "/api/keys/revoke-leaked", headers: () => json, query: "" },
  ...(refusal as Partial<HttpRefusal> & Pick<HttpRefusal, "reason">),
}));

const onInternal: readonly HttpRefusal[] = [
  ...["/nowhere", "/healthz", "/", "/sign-in/code", "/api/apps/echo/run", "/api/apps/echo/stream"].map(
    (path) => ({
      reason: "NOT_FOUND" as const,
      method: "GET",
      path,
    }),
  ),
  { reason: "METHOD_NOT_ALLOWED", method: "POST", path: "/metrics" },
  { reason: "MISSING_CREDENTIAL", method: "GET", path: "/metrics" },
  ...[
    ({ key }: RefusalWorld) => ({ authorization: `Bearer ${key.value}` }),
    ({ keyrun }: RefusalWorld) => ({ authorization: `Basic ${keyrun.serviceToken}` }),
  ].map((headers, number) => ({
    reason: "INVALID_CREDENTIAL" as const,
    what: ["an API key", "another scheme"][number] ?? "",
    method: "GET",
    path: "/metrics",
    headers,
  })),
];

export const httpCases: readonly RefusalCase[] = [http1, http2].flatMap((http) => [
  ...[...onPublic, ...reports].map((refusal) => httpCase(http, "public", refusal)),
  ...onInternal.map((refusal) => httpCase(http, "internal", refusal)),
]);

function httpCase(http: HttpVersion, listener: ListenerName, refusal: HttpRefusal): RefusalCase {
  const { reason, what, method, path } = refusal;
  return {
    reason,
    what: `${method} ${path}${what === undefined ? "" : `, ${what}`}`,
    listener,
    protocol: http.name,
    entry: "rest",
    request: loggedRequest(method, path),
    send: (world, requestId) => http.exchange(world.url(listener), askOf(refusal, world, requestId)),
  };
}

const at = "oidcKeyrun" as const;

/** Cases for a Keyrun whose sign-in uses an issuer that can't be reached. */
export const oidcCases: readonly RefusalCase[] = [http1, http2].flatMap((http) => {
  const about = { listener: "public" as const, protocol: http.name, entry: "rest" as Entry, at };
  const ask = (path: string, requestId: string): Ask => ({
    method: "GET",
    path: `${path}?q=${secretQuery}`,
    headers: { "x-request-id": requestId },
    host: new URL(oidcOrigin).host,
  });
  const sent =
    (path: string): RefusalCase["send"] =>
    ({ oidcKeyrun }, requestId) =>
      http.exchange(oidcKeyrun.publicUrl, ask(path, requestId));
  return [
    {
      ...about,
      reason: "UNAVAILABLE",
      pageError: "provider_unavailable",
      request: "GET /sign-in",
      send: sent("/sign-in"),
    },
    {
      ...about,
      reason: "SIGN_IN_FAILED",
      pageError: "expired",
      request: "GET /sign-in/callback",
      send: sent("/sign-in/callback"),
    },
  ];
});

function askOf(refusal: HttpRefusal, world: RefusalWorld, requestId: string): Ask {
  const { method, path, host, headers, body, query = `?q=${secretQuery}` } = refusal;
  return {
    method,
    path: `${path}${query}`,
    headers: { ...headers?.(world), "x-request-id": requestId },
    ...(host !== undefined && { host }),
    ...(body !== undefined && { body: typeof body === "string" ? body : body(world) }),
  };
}
