import { once } from "node:events";
import http2 from "node:http2";
import net from "node:net";

/** One load. Each connection sends its next request when it has the answer to the last one. */
export interface Load {
  readonly connections: number;
  readonly requests: number;
  /** Whether this process sleeps while it waits, as callers do. */
  readonly sleeps?: boolean;
}

/** How long each request waited for its whole answer, in milliseconds. */
export type Latencies = Float64Array;

/**
 * Keeps this process from sleeping in the kernel. Waking a sleeping process costs the process that
 * writes to it: a slow subject would pay that for every answer, and a fast one never.
 */
function stayAwake({ sleeps = false }: Load): () => void {
  let awake = !sleeps;
  const turn = () => {
    if (awake) setImmediate(turn);
  };
  turn();
  return () => {
    awake = false;
  };
}

/** What is left to send, and how long what was sent took. */
class Progress {
  readonly latencies: Latencies;
  #begun = 0;
  #ended = 0;

  constructor({ requests }: Load) {
    this.latencies = new Float64Array(requests);
  }

  /** The number of the next request; undefined if none is left. */
  begin(): number | undefined {
    return this.#begun < this.latencies.length ? this.#begun++ : undefined;
  }

  end(begunMs: number): void {
    this.latencies[this.#ended++] = performance.now() - begunMs;
  }
}

/**
 * Sends HTTP/1.1 requests in turn, over kept connections. Throws at the first answer that is not a
 * 200 with `expected` in its body.
 */
export async function loadHttp1(
  port: number,
  { requests, expected }: { readonly requests: readonly string[]; readonly expected: string },
  load: Load,
): Promise<Latencies> {
  const progress = new Progress(load);
  const lane = () => http1Connection(port, { requests, expected }, progress);
  const sleep = stayAwake(load);
  await Promise.all(Array.from({ length: load.connections }, lane)).finally(sleep);
  return progress.latencies;
}

function http1Connection(
  port: number,
  { requests, expected }: { readonly requests: readonly string[]; readonly expected: string },
  progress: Progress,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let held = "";
    let begunMs = 0;
    const next = () => {
      const number = progress.begin();
      if (number === undefined) return void socket.end(() => resolve());
      begunMs = performance.now();
      socket.write(requests[number % requests.length]!);
    };
    const socket = net.connect(port, "127.0.0.1", next);
    socket.setNoDelay();
    socket.on("error", reject);
    socket.on("close", () => reject(new Error("A connection was closed in the middle of the load.")));
    socket.on("data", (chunk) => {
      held += chunk.toString("latin1");
      const head = held.indexOf("\r\n\r\n");
      if (head < 0) return;
      const length = Number(/content-length: (\d+)/i.exec(held.slice(0, head))?.[1]);
      if (held.length < head + 4 + length) return;
      if (!held.startsWith("HTTP/1.1 200") || !held.includes(expected, head)) {
        return void socket.destroy(new Error(held));
      }
      held = "";
      progress.end(begunMs);
      next();
    });
  });
}

export interface GrpcCall {
  readonly port: number;
  readonly path: string;
  /** Messages with their prefix of five bytes, and what to authenticate with, in turn. */
  readonly requests: readonly { readonly body: Buffer; readonly credential: string }[];
  /** Bytes that every answer holds. */
  readonly expected: string;
}

/**
 * Sends unary gRPC requests in turn over one connection, as many at once as the load says. Throws
 * at the first answer that is not OK, or lacks `expected`.
 */
export async function loadGrpc({ port, path, requests, expected }: GrpcCall, load: Load): Promise<Latencies> {
  const session = http2.connect(`http://127.0.0.1:${port}`);
  await once(session, "connect");
  const calls = requests.map(({ body, credential }) => ({
    body,
    headers: {
      ":method": "POST",
      ":path": path,
      "content-type": "application/grpc+proto",
      te: "trailers",
      ...(credential && { authorization: `Bearer ${credential}` }),
    },
  }));
  const progress = new Progress(load);
  const lane = async () => {
    for (let number = progress.begin(); number !== undefined; number = progress.begin()) {
      const begunMs = performance.now();
      await grpcCall(session, calls[number % calls.length]!, expected);
      progress.end(begunMs);
    }
  };
  const sleep = stayAwake(load);
  await Promise.all(Array.from({ length: load.connections }, lane)).finally(sleep);
  session.close();
  return progress.latencies;
}

function grpcCall(
  session: http2.ClientHttp2Session,
  { headers, body }: { readonly headers: http2.OutgoingHttpHeaders; readonly body: Buffer },
  expected: string,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const stream = session.request(headers);
    let status: unknown;
    let message = "";
    stream.on("response", (response) => {
      status = response["grpc-status"];
    });
    stream.on("trailers", (trailers) => {
      status = trailers["grpc-status"];
    });
    stream.on("error", reject);
    stream.on("data", (chunk: Buffer) => {
      message += chunk.toString("latin1");
    });
    stream.on("close", () => {
      if (status === "0" && message.includes(expected)) resolve();
      else reject(new Error(`grpc-status ${status}, message ${message}`));
    });
    stream.end(body);
  });
}
