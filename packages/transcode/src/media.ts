import { type Problem, problem } from "./problem.ts";

/** The headers that describe a body; undefined if the caller did not send the header. */
export interface BodyHeaders {
  readonly contentType: string | undefined;
  readonly contentEncoding: string | undefined;
}

/**
 * Returns undefined if the headers allow a JSON body: `application/json` in UTF-8, or no type at
 * all, and no compression (RFC 9110, sections 8.3 and 8.4).
 */
export function checkJsonHeaders(headers: BodyHeaders): Problem | undefined {
  const { contentType } = headers;
  if (contentType !== undefined && contentType !== "application/json" && !isJsonType(contentType)) {
    const words = "Send the body as JSON in UTF-8, with Content-Type: application/json.";
    return { ...problem("unsupported_media_type", words), readable: { accept: "application/json" } };
  }
  return checkEncoding(headers);
}

/** Returns undefined if the body is not compressed. */
export function checkEncoding({ contentEncoding }: BodyHeaders): Problem | undefined {
  if (contentEncoding === undefined || /^\s*(identity)?\s*$/i.test(contentEncoding)) return undefined;
  const words = "Send the body uncompressed, without Content-Encoding.";
  return { ...problem("unsupported_media_type", words), readable: { accept_encoding: "identity" } };
}

/** An empty Content-Type counts as none. */
function isJsonType(contentType: string): boolean {
  const [type = "", ...parameters] = contentType.toLowerCase().split(";");
  if (type.trim() === "") return parameters.length === 0;
  return type.trim() === "application/json" && parameters.every(isNoOtherCharset);
}

/**
 * JSON is always UTF-8 (RFC 8259). A declared charset that differs is refused, because the body
 * would be misread.
 */
function isNoOtherCharset(parameter: string): boolean {
  const [name = "", value = ""] = parameter.split("=");
  return name.trim() !== "charset" || /^\s*"?(utf-?8|us-ascii)"?\s*$/.test(value);
}
