import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  constants,
  type OutgoingHttpHeaders,
} from "node:http2";

/** The answer to a gRPC call, as it was on the wire. A head that ends it is its trailers too. */
export interface RawGrpcAnswer {
  readonly headers: Record<string, unknown>;
  readonly trailers: Record<string, unknown>;
  readonly body: Buffer;
}

/** Opens a call. The test sends the body. */
export function openGrpcCall(
  session: ClientHttp2Session,
  path: string,
  headers: OutgoingHttpHeaders = {},
): { readonly stream: ClientHttp2Stream; readonly answer: Promise<RawGrpcAnswer> } {
  const stream = session.request({
    ":method": "POST",
    ":path": path,
    "content-type": "application/grpc",
    te: "trailers",
    ...headers,
  });
  return { stream, answer: rawGrpcAnswer(stream) };
}

function rawGrpcAnswer(stream: ClientHttp2Stream): Promise<RawGrpcAnswer> {
  return new Promise((resolve, reject) => {
    let headers: Record<string, unknown> = {};
    let trailers: Record<string, unknown> = {};
    const chunks: Buffer[] = [];
    stream.on("response", (received, flags) => {
      headers = named(received);
      if ((flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0) trailers = headers;
    });
    stream.on("trailers", (received) => {
      trailers = named(received);
    });
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("error", reject);
    stream.on("close", () => resolve({ headers, trailers, body: Buffer.concat(chunks) }));
  });
}

/** The headers without Node's symbols. */
function named(headers: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(headers));
}
