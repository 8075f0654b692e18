import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { constants } from "node:http2";
import { buffer } from "node:stream/consumers";
import { h2cSession } from "./h2c-client.ts";

/** A request to send, over either version of HTTP. */
export interface Ask {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[]>>;
  /** The value of Host or :authority; by default the server's own. */
  readonly host?: string;
  readonly body?: string | Uint8Array;
}

export interface WireAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly trailers: Readonly<Record<string, unknown>>;
  readonly body: Buffer;
}

/** One version of HTTP. Each request gets its own connection, which is closed after it. */
export interface HttpVersion {
  readonly name: string;
  exchange(url: string, ask: Ask): Promise<WireAnswer>;
  /** Sends the request, and disconnects once `when` has resolved or once the answer has begun. */
  abandon(url: string, ask: Ask, when: Promise<void> | "begun"): Promise<void>;
  /** Sends the head and one byte of the body, and waits until the server closes. */
  stall(url: string, ask: Ask): Promise<WireAnswer | undefined>;
}

export const http1: HttpVersion = {
  name: "HTTP/1.1",
  async exchange(url, ask) {
    const request = http1Request(url, ask);
    request.end(ask.body);
    return http1Answer(request);
  },
  async abandon(url, ask, when) {
    const request = http1Request(url, ask);
    request.on("error", () => undefined).end(ask.body);
    await (when === "begun" ? once(request, "response") : when);
    request.destroy();
  },
  async stall(url, ask) {
    const request = http1Request(url, { ...ask, headers: { ...ask.headers, "content-length": "100" } });
    request.on("error", () => undefined).write("{");
    return http1Answer(request);
  },
};

export const http2: HttpVersion = {
  name: "HTTP/2",
  async exchange(url, ask) {
    const { session, stream } = await http2Stream(url, ask);
    stream.end(ask.body);
    return http2Answer(session, stream);
  },
  async abandon(url, ask, when) {
    const { session, stream } = await http2Stream(url, ask);
    stream.on("error", () => undefined).end(ask.body);
    await (when === "begun" ? once(stream, "response") : when);
    stream.close(constants.NGHTTP2_CANCEL);
    session.close();
  },
  async stall(url, ask) {
    const { session, stream } = await http2Stream(url, ask);
    stream.write("{");
    return http2Answer(session, stream).catch(() => undefined);
  },
};

function http1Request(url: string, { method, path, headers, host }: Ask) {
  return httpRequest(url, {
    method,
    path,
    headers: { ...headers, connection: "close", ...(host !== undefined && { host }) },
    agent: false,
  });
}

async function http1Answer(request: ReturnType<typeof httpRequest>): Promise<WireAnswer> {
  const [response] = await once(request, "response");
  const body = await buffer(response);
  return { status: response.statusCode, headers: response.headers, trailers: response.trailers, body };
}

async function http2Stream(url: string, { method, path, headers, host }: Ask) {
  const session = await h2cSession(url);
  const stream = session.request({
    ":method": method,
    ":path": path,
    ...(host !== undefined && { ":authority": host }),
    ...headers,
  });
  return { session, stream };
}

type Http2Opened = Awaited<ReturnType<typeof http2Stream>>;

async function http2Answer(
  session: Http2Opened["session"],
  stream: Http2Opened["stream"],
): Promise<WireAnswer> {
  let headers: Record<string, unknown> = {};
  let trailers: Record<string, unknown> = {};
  const chunks: Buffer[] = [];
  stream.on("response", (received) => {
    headers = { ...received };
  });
  stream.on("trailers", (received) => {
    trailers = { ...received };
  });
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  try {
    await once(stream, "close");
  } finally {
    session.close();
  }
  if (headers[":status"] === undefined) throw new Error(`The stream closed with code ${stream.rstCode}.`);
  return { status: Number(headers[":status"]), headers, trailers, body: Buffer.concat(chunks) };
}
