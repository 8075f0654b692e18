import type { Refusal } from "../error.ts";

/**
 * One HTTP request as a plain value, whatever carried it here: HTTP/1.1, HTTP/2, or a leaner door to come. The
 * edge knows no socket and no `node:http` object.
 */
export interface HttpRequest {
  readonly method: string;
  /** Path and query as they came, not decoded. Starts with "/". */
  readonly target: string;
  /** A header's value by its lower-case name, joined by ", " where it was sent more than once. */
  header(name: string): string | undefined;
  /** Every value of `Authorization`, in order: Node keeps the first of two without a word, so these are counted. */
  readonly authorizations: readonly string[];
  /** The client's address: the peer's, or the one named by as many proxies as are trusted. */
  readonly address: string;
  /** The caller's own id if it has the right form, else a new one. */
  readonly requestId: string;
  /** Reads the whole body, once; without a promise where all of it is here. Never rejects. */
  readBody(bytesMax: number): BodyOutcome | Promise<BodyOutcome>;
  /** Aborted when the caller goes away before it was answered, or the drain's time is over. Made when first asked for. */
  signal(): AbortSignal;
}

export type BodyOutcome =
  | { readonly kind: "whole"; readonly bytes: Uint8Array }
  | { readonly kind: "too_large" }
  /**
   * The rest will not come: the caller went away or was too slow, and nobody will read the answer. With a reason it was
   * us who gave up, as at the end of a drain, and the caller is to be told so.
   */
  | { readonly kind: "gone"; readonly reason?: Refusal };

export interface HttpResponse {
  readonly status: number;
  /** Names and values in turn, as they are sent. Without Date, Content-Length and Connection, which the server sets. */
  readonly headers: string[];
  readonly body: string | Uint8Array;
  /**
   * Names and values in turn that follow the body, over HTTP/2 alone. An answer that has them has no Content-Length.
   */
  readonly trailers?: readonly string[];
}

/** Answers a request, and never rejects: what goes wrong inside is a 5xx with a body. */
export type HttpDoor = (request: HttpRequest) => HttpResponse | Promise<HttpResponse>;

/** The target without its query. */
export function pathOf(target: string): string {
  const mark = target.indexOf("?");
  return mark === -1 ? target : target.slice(0, mark);
}
