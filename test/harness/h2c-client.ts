import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  type IncomingHttpHeaders,
  type IncomingHttpStatusHeader,
  type OutgoingHttpHeaders,
  type SecureClientSessionOptions,
} from "node:http2";

export interface H2cAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders & IncomingHttpStatusHeader;
  readonly body: string;
}

/**
 * Opens an HTTP/2 session without TLS. An error rejects only the promises of the session's
 * requests.
 */
export async function h2cSession(url: string): Promise<ClientHttp2Session> {
  // Lets a test send the same header twice, as a hostile caller would.
  const session = connect(url, { strictSingleValueFields: false } as SecureClientSessionOptions);
  session.on("error", () => undefined);
  await new Promise<void>((resolve, reject) => {
    session.once("remoteSettings", () => resolve());
    session.once("close", () => reject(new Error("The session closed before its settings came.")));
  });
  return session;
}

/** A session that is opened at once, although perhaps nothing is ever asked of it. */
export function openH2cSession(url: string) {
  const session = h2cSession(url);
  const nothing = () => {};
  session.catch(nothing);
  return { session, close: () => void session.then((open) => open.destroy(), nothing) };
}

/** Sends a request and reads the whole answer. Rejects if the stream ends without one. */
export function h2cRequest(
  session: ClientHttp2Session,
  headers: OutgoingHttpHeaders,
  body?: string | Uint8Array,
): Promise<H2cAnswer> {
  const stream = session.request(headers);
  stream.end(body);
  return h2cAnswer(stream);
}

export function h2cAnswer(stream: ClientHttp2Stream): Promise<H2cAnswer> {
  return new Promise((resolve, reject) => {
    let answered: H2cAnswer["headers"] | undefined;
    let text = "";
    stream.setEncoding("utf8");
    stream.on("response", (headers) => {
      answered = headers;
    });
    stream.on("data", (chunk: string) => {
      text += chunk;
    });
    stream.on("error", reject);
    stream.on("close", () => {
      if (answered === undefined) reject(new Error(`The stream closed with code ${stream.rstCode}.`));
      else resolve({ status: Number(answered[":status"]), headers: answered, body: text });
    });
  });
}

/** Accepts only the error after which a client may repeat a request: no server has processed it. */
export function h2cRefusal(error: unknown): "refused unread" {
  if (String(error).includes("NGHTTP2_REFUSED_STREAM")) return "refused unread";
  throw error;
}
