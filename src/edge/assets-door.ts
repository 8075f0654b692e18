import { fail } from "../error.ts";
import type { HttpDoor, HttpRequest, HttpResponse } from "./http.ts";
import { refusalResponse } from "./refusal-response.ts";
import type { ScreenFile, ScreenFiles } from "./screen-files.ts";
import { screenHeaders } from "./screen-headers.ts";

export interface AssetsDoorParts {
  readonly files: ScreenFiles;
  /** Whether the request names one of the screen's own hosts. */
  readonly isOwnHost: (request: HttpRequest) => boolean;
  /** Whether browsers come over HTTPS. */
  readonly secure: () => boolean;
  /** Answers every other path. */
  readonly next: HttpDoor;
}

/**
 * The screen: its one document under each address that it has, and its files. The document is never kept by a
 * browser; files under `/assets/` have their hash in their name and are kept for ever. GET and HEAD.
 */
export function createAssetsDoor(parts: AssetsDoorParts): HttpDoor {
  const { files, next } = parts;
  return (request) => {
    const path = request.target.split("?", 1)[0] ?? "";
    const isDocument = documentPaths.test(path);
    const file = files.get(isDocument ? "/index.html" : path);
    if (!file || path === "/index.html") return next(request);
    if (!parts.isOwnHost(request)) return refuse(request, "MISDIRECTED_REQUEST");
    if (request.method !== "GET" && request.method !== "HEAD") return refuse(request, "METHOD_NOT_ALLOWED");
    const headers = [...screenHeaders({ secure: parts.secure() }), "X-Request-Id", request.requestId];
    return serve(request, { file, headers, caching: isDocument ? "no-store" : cachingOf(path) });
  };
}

/** What the screen's own router knows; an address that it does not know is not found, and not a page that says so. */
const documentPaths = /^\/($|settings(\/|$)|sign-in(\/link)?$)/;

function cachingOf(path: string): string {
  return path.startsWith("/assets/") ? "public, max-age=31536000, immutable" : "no-cache";
}

function serve(
  request: HttpRequest,
  { file, headers, caching }: { file: ScreenFile; headers: string[]; caching: string },
): HttpResponse {
  const { encoding, bytes } = bestForm(file, request.header("accept-encoding"));
  headers.push("Cache-Control", caching, "Vary", "Accept-Encoding");
  if (caching !== "no-store") {
    const etag = `"${file.hash}${encoding && `-${encoding}`}"`;
    headers.push("ETag", etag);
    if (knows(request.header("if-none-match"), etag)) return { status: 304, headers, body: "" };
  }
  headers.push("Content-Type", file.contentType);
  if (encoding) headers.push("Content-Encoding", encoding);
  return { status: 200, headers, body: bytes };
}

function bestForm({ plain, br, gzip }: ScreenFile, accept = ""): { encoding: string; bytes: Uint8Array } {
  if (br && accepts(accept, "br")) return { encoding: "br", bytes: br };
  if (gzip && accepts(accept, "gzip")) return { encoding: "gzip", bytes: gzip };
  return { encoding: "", bytes: plain };
}

/** Named, and not with the weight 0 (RFC 9110, section 12.5.3). `*` is no name: plain is always right. */
function accepts(accept: string, encoding: string): boolean {
  return accept.split(",").some((part) => {
    const [name = "", ...parameters] = part.split(";").map((text) => text.trim().toLowerCase());
    return name === encoding && !parameters.some((parameter) => /^q=0(\.0{0,3})?$/.test(parameter));
  });
}

function knows(ifNoneMatch: string | undefined, etag: string): boolean {
  return (ifNoneMatch ?? "").split(",").some((tag) => tag.trim().replace(/^W\//, "") === etag);
}

function refuse(request: HttpRequest, reason: "MISDIRECTED_REQUEST" | "METHOD_NOT_ALLOWED"): HttpResponse {
  const refusal = fail(reason, reason === "METHOD_NOT_ALLOWED" ? { metadata: { allow: "GET, HEAD" } } : {});
  const { requestId } = request;
  return refusalResponse(refusal, { requestId, accept: request.header("accept"), rateHeaders: [] });
}
