/** The screen over HTTP: its files and documentation, their headers, and security.txt. */

import { readdir, readFile } from "node:fs/promises";
import { join, sep } from "node:path";
import type { Clock } from "../base/clock.ts";
import { fail, Refusal } from "../refusal/refusal.ts";
import type { Answer, HttpHandler, HttpRequest, HttpResponse } from "./handler.ts";
import { pathOf } from "./request-head.ts";
import { compress, createStaticBody, htmlOf, type StaticBody, staticAnswer } from "./static-body.ts";

/**
 * Serves the screen: one HTML document for all of its paths, those of the documentation with
 * security.txt, and its files. Browsers must not cache the screen's document. Files under
 * `/assets/` have a hash in their name and may be cached for ever. Only GET and HEAD.
 */
export function createScreenHandler({
  files,
  isOwnHost,
  address,
  clock,
  next,
}: {
  readonly files: ScreenFiles;
  /**
   * True if the request names one of the screen's own hosts. Absent where nobody can sign in: then
   * the documentation is served without the screen, under every host.
   */
  readonly isOwnHost?: (request: HttpRequest) => boolean;
  /** The start of links to this Keyrun, and whether browsers use HTTPS alone. */
  readonly address: (request: HttpRequest) => { readonly origin: string; readonly secure: boolean };
  readonly clock: Pick<Clock, "unixMs">;
  /** Gets the requests for every other path. */
  readonly next: HttpHandler;
}): HttpHandler {
  const addressedPage = createDocsPages();
  const fileAt = (request: HttpRequest, path: string): StaticBody | undefined => {
    if (path === securityTextPath && files.has("/docs/security.html")) {
      return securityText({ origin: address(request).origin, nowMs: clock.unixMs() });
    }
    return files.get(docsPaths.test(path) ? `${path}.html` : path);
  };
  /** A person who follows a wrong link gets the screen, which says so; programs get JSON. */
  async function orUnknownPage(request: HttpRequest, file: StaticBody): Promise<Answer> {
    let answer: Answer;
    try {
      answer = await next(request);
    } catch (thrown) {
      if (!(thrown instanceof Refusal)) throw thrown;
      answer = { refusal: thrown };
    }
    if (!("refusal" in answer) || answer.refusal.reason !== "NOT_FOUND") return answer;
    const headers = screenHeaders(address(request));
    const page = staticAnswer(request, file, { headers, caching: "no-store" });
    return { ...answer, response: { ...page, status: 404 } };
  }

  return (request) => {
    const path = pathOf(request.target);
    const isDocument = isOwnHost !== undefined && documentPaths.test(path);
    const file = fileAt(request, isDocument ? "/index.html" : path);
    if (docsPath.test(path) && files.has(`${firstDocs}.html`)) return movedTo(firstDocs, request);
    if (!file || path.endsWith(".html")) {
      const page = isOwnHost?.(request) && asksForPage(request) ? files.get("/index.html") : undefined;
      return page === undefined ? next(request) : orUnknownPage(request, page);
    }
    if (isOwnHost?.(request) === false) throw fail("MISDIRECTED_REQUEST");
    if (request.method !== "GET" && request.method !== "HEAD") {
      throw fail("METHOD_NOT_ALLOWED", { metadata: { allow: "GET, HEAD" } });
    }
    const headers = screenHeaders(address(request));
    const answer = (body: StaticBody) =>
      staticAnswer(request, body, { headers, caching: isDocument ? "no-store" : cachingOf(path) });
    if (!docsPaths.test(path)) return answer(file);
    return addressedPage(file, address(request).origin).then(answer);
  };
}

/** The paths that the screen's own router knows. Every other path gets 404 and not the document. */
const documentPaths = /^\/($|settings(\/|$)|sign-in(\/link)?$)/;

/** The pages of the documentation, which anybody may read. */
const docsPaths = /^\/docs\/[\w-]+$/;

/** Leads to the first of them, which names the others. */
const docsPath = /^\/docs\/?$/;
const firstDocs = "/docs/api";

function movedTo(location: string, { requestId }: HttpRequest): HttpResponse {
  return { status: 302, headers: ["Location", location, "X-Request-Id", requestId], body: "" };
}

/** True for a browser that goes to an address. Below /api everything is for programs. */
function asksForPage(request: HttpRequest): boolean {
  if (request.method !== "GET" || pathOf(request.target).startsWith("/api/")) return false;
  return /\btext\/html\b/.test(request.header("accept") ?? "");
}

function cachingOf(path: string): string {
  return path.startsWith("/assets/") ? "public, max-age=31536000, immutable" : "no-cache";
}

/** Complete files of the built screen by their URL path, which starts with "/". */
export type ScreenFiles = ReadonlyMap<string, StaticBody>;

const filesMax = 1_000;

/**
 * Reads every file of the built screen, once, at start-up. The build has put the compressed forms
 * of a file beside it, as `<name>.br` and `<name>.gz`: to make them takes longer than the rest of a
 * start. The document gets the words that call the command line here, and is compressed anew.
 * Undefined if the screen is not built. Throws if there are more than `filesMax` files, because
 * then it is the wrong folder.
 */
export async function readScreenFiles(folder: string, command: string): Promise<ScreenFiles | undefined> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  const names = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  if (names.length > filesMax) throw new Error(`${folder} has more files than a screen: ${names.length}`);
  const contents = new Map(
    await Promise.all(names.map(async (name) => [name, await readFile(name)] as const)),
  );
  const byPath = new Map<string, StaticBody>();
  for (const [name, plain] of contents) {
    if (/\.(br|gz)$/.test(name)) continue;
    const contentType = contentTypes[name.slice(name.lastIndexOf("."))] ?? "application/octet-stream";
    const [br, gzip] = [contents.get(`${name}.br`), contents.get(`${name}.gz`)];
    const compressed = { ...(br && { br }), ...(gzip && { gzip }) };
    byPath.set(
      name.slice(folder.length).split(sep).join("/"),
      createStaticBody(plain, { contentType, compressed }),
    );
  }
  const page = byPath.get("/index.html");
  return page && byPath.set("/index.html", await withCommand(page, command));
}

/** The document whose element `meta` of this name has the command as its content. */
async function withCommand({ plain, contentType }: StaticBody, command: string): Promise<StaticBody> {
  const html = Buffer.from(plain)
    .toString()
    .replace(/(?<=<meta name="keyrun-command" content=")[^"]*/, () => htmlOf(command));
  const bytes = Buffer.from(html);
  return createStaticBody(bytes, { contentType, compressed: await compress(bytes, { brotliQuality: 11 }) });
}

const contentTypes: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".ico": "image/x-icon",
  ".woff2": "font/woff2",
};

/**
 * The screen may run only its own files, may not be framed, may send requests only to its own
 * origin, and may not turn text into script. It shows a new key once, so no other code may run
 * beside it.
 */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'self'",
  "require-trusted-types-for 'script'",
].join("; ");

const hstsSeconds = 365 * 24 * 60 * 60;

/**
 * The headers of every response that a browser shows or runs: names and values, alternating.
 * Strict-Transport-Security is added only over HTTPS.
 */
export function screenHeaders({ secure }: { readonly secure: boolean }): string[] {
  const headers = [
    "Content-Security-Policy",
    contentSecurityPolicy,
    "Cross-Origin-Opener-Policy",
    "same-origin",
    "Cross-Origin-Resource-Policy",
    "same-origin",
    "X-Content-Type-Options",
    "nosniff",
    "Referrer-Policy",
    "no-referrer",
  ];
  if (secure) headers.push("Strict-Transport-Security", `max-age=${hstsSeconds}`);
  return headers;
}

const securityTextPath = "/.well-known/security.txt";

const dayMs = 24 * 60 * 60 * 1_000;
/** RFC 9116 recommends less than a year. The text is made anew each day. */
const validDays = 30;

/**
 * Says where to report a fault of this Keyrun (RFC 9116): at its page of SECURITY.md. The same text
 * for a day of UTC. `origin` is the start of links to this Keyrun: scheme, host and port.
 */
function securityText({ origin, nowMs }: { origin: string; nowMs: number }): StaticBody {
  const expires = new Date((Math.floor(nowMs / dayMs) + validDays) * dayMs);
  const lines = [
    `Contact: ${origin}/docs/security#how-to-report-a-fault`,
    `Expires: ${expires.toISOString()}`,
    "Preferred-Languages: en",
    `Canonical: ${origin}${securityTextPath}`,
    "",
  ];
  const contentType = "text/plain; charset=utf-8";
  return createStaticBody(Buffer.from(lines.join("\n")), { contentType, compressed: {} });
}

/** The address in the commands of the pages, for those who read them in the repository. */
const exampleOrigin = "http://127.0.0.1:8080";

/** It is compressed while the caller waits, so this is one of the fast qualities. */
const brotliQuality = 5;

/** Returns a page with this address in its commands: scheme, host and port. */
type AddressedPage = (page: StaticBody, origin: string) => Promise<StaticBody>;

/**
 * Keeps each page as it was for the last address: nearly always there is one. A page that names no
 * address stays as it is.
 */
function createDocsPages(): AddressedPage {
  const last = new Map<StaticBody, { readonly origin: string; readonly made: Promise<StaticBody> }>();
  return (page, origin) => {
    const known = last.get(page);
    if (known?.origin === origin) return known.made;
    const made = withOrigin(page, origin);
    last.set(page, { origin, made });
    return made;
  };
}

async function withOrigin(page: StaticBody, origin: string): Promise<StaticBody> {
  const text = Buffer.from(page.plain).toString();
  if (origin === exampleOrigin || !text.includes(exampleOrigin)) return page;
  // A caller may have named the host, so it is text and no HTML.
  const safe = htmlOf(origin);
  const plain = Buffer.from(text.replaceAll(exampleOrigin, () => safe));
  return createStaticBody(plain, {
    contentType: page.contentType,
    compressed: await compress(plain, { brotliQuality }),
  });
}
