import { once } from "node:events";
import http2 from "node:http2";
import net from "node:net";

/** One load. Each connection sends its next request when it has the answer to the last one. */
export interface Load {
  readonly connections: number;
  readonly requests: number;
}

/**
 * Keeps this process from sleeping in the kernel. Waking a sleeping process costs the process that
 * writes to it: a slow subject would pay that for every answer, and a fast one never.
 */
function stayAwake(): () => void {
  let awake = true;
  const turn = () => {
    if (awake) setImmediate(turn);
  };
  turn();
  return () => {
    awake = false;
  };
}

/** Sends one HTTP/1.1 request repeatedly. Throws at the first answer that is not 200. */
export async function loadHttp1(port: number, request: string, load: Load): Promise<void> {
  const each = Math.ceil(load.requests / load.connections);
  const sleep = stayAwake();
  const connections = Array.from({ length: load.connections }, () => http1Connection(port, request, each));
  await Promise.all(connections).finally(sleep);
}

function http1Connection(port: number, request: string, requests: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = net.connect(port, "127.0.0.1", () => socket.write(request));
    socket.setNoDelay();
    let held = "";
    let left = requests;
    socket.on("error", reject);
    socket.on("data", (chunk) => {
      held += chunk.toString("latin1");
      const head = held.indexOf("\r\n\r\n");
      if (head < 0) return;
      const length = Number(/content-length: (\d+)/i.exec(held.slice(0, head))?.[1]);
      if (held.length < head + 4 + length) return;
      if (!held.startsWith("HTTP/1.1 200")) return reject(new Error(held));
      held = "";
      left -= 1;
      if (left > 0) socket.write(request);
      else socket.end(() => resolve());
    });
  });
}

export interface GrpcCall {
  readonly port: number;
  readonly path: string;
  /** The message with its prefix of five bytes. */
  readonly body: Buffer;
  readonly apiKey: string;
}

/** Sends one unary gRPC request repeatedly. Throws at the first answer that is not OK. */
export async function loadGrpc({ port, path, body, apiKey }: GrpcCall, load: Load): Promise<void> {
  const session = http2.connect(`http://127.0.0.1:${port}`);
  await once(session, "connect");
  const sleep = stayAwake();
  const headers = {
    ":method": "POST",
    ":path": path,
    "content-type": "application/grpc+proto",
    te: "trailers",
    ...(apiKey && { authorization: `Bearer ${apiKey}` }),
  };
  let left = load.requests;
  const lane = async () => {
    while (left-- > 0) await grpcCall(session, headers, body);
  };
  await Promise.all(Array.from({ length: load.connections }, lane)).finally(sleep);
  session.close();
}

function grpcCall(
  session: http2.ClientHttp2Session,
  headers: http2.OutgoingHttpHeaders,
  body: Buffer,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const stream = session.request(headers);
    let status: unknown;
    stream.on("response", (response) => {
      status = response["grpc-status"];
    });
    stream.on("trailers", (trailers) => {
      status = trailers["grpc-status"];
    });
    stream.on("error", reject);
    stream.on("close", () => (status === "0" ? resolve() : reject(new Error(`grpc-status ${status}`))));
    stream.resume();
    stream.end(body);
  });
}
