import { once } from "node:events";
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

/** A session over HTTP/2 without TLS, ready for requests. Its errors and its streams' end only their own promises. */
export async function h2cSession(url: string): Promise<ClientHttp2Session> {
  // So that a test can send the same header twice, as a hostile caller would.
  const session = connect(url, { strictSingleValueFields: false } as SecureClientSessionOptions);
  session.on("error", () => undefined);
  await once(session, "remoteSettings");
  return session;
}

/** Sends a request whole and reads its answer whole; rejects where the stream ends without one. */
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

/** Takes the one failure after which a client may send a request again, since no server has seen it. */
export function h2cRefusal(error: unknown): "refused unread" {
  if (String(error).includes("NGHTTP2_REFUSED_STREAM")) return "refused unread";
  throw error;
}
