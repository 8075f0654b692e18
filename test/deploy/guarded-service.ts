import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";

/** A request as it came to the service. */
export interface Arrived {
  readonly method: string;
  readonly url: string;
  /** Names and values, as they were written. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly bodyBytes: number;
}

/** The stream of a chat, which a test holds up. */
export interface Chat {
  say(text: string): void;
  end(): void;
}

/** A service behind a guard that knows nothing of Keyrun. It speaks as many do. */
export async function startGuardedService() {
  const arrived: Arrived[] = [];
  const chats: ((chat: Chat) => void)[] = [];
  const sockets = new Set<Duplex>();

  const server = createServer(async (request, response) => {
    let bodyBytes = 0;
    let body = "";
    for await (const part of request as AsyncIterable<Buffer>) {
      bodyBytes += part.length;
      if (bodyBytes < 100_000) body += part;
    }
    arrived.push({ ...headOf(request), bodyBytes });
    answer(request, response, body);
  });

  function answer(request: IncomingMessage, response: ServerResponse, body: string): void {
    const { url = "" } = request;
    const [, status] = /^\/status\/(\d+)$/.exec(url) ?? [];
    if (url === "/v1/chat/completions") chats.shift()?.(openChat(response));
    else if (url === "/mcp") answerMcp(response, body);
    else if (url === "/nonsense") request.socket.end("HTTP/1.1 200 OK\r\nno header\r\n\r\n");
    else if (request.method === "OPTIONS") {
      response.writeHead(204, { "access-control-allow-origin": "*" }).end();
    } else response.writeHead(Number(status ?? 200), { "content-type": "text/plain" }).end("of the service");
  }

  server.on("upgrade", (request, socket) => {
    arrived.push({ ...headOf(request), bodyBytes: 0 });
    sockets.add(socket.on("close", () => sockets.delete(socket)).on("error", () => {}));
    const key = `${request.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
    const accept = createHash("sha1").update(key).digest("base64");
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
    );
    socket.on("data", (frame) => void socket.write(unmasked(frame)));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    arrived: arrived as readonly Arrived[],
    /** The next chat that a caller asks for. */
    nextChat: () => new Promise<Chat>((resolve) => chats.push(resolve)),
    async close() {
      for (const socket of sockets) socket.destroy();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function headOf({ method = "", url = "", rawHeaders }: IncomingMessage) {
  const headers = rawHeaders.flatMap((name, at) =>
    at % 2 === 0 ? [[name, rawHeaders[at + 1] ?? ""] as const] : [],
  );
  return { method, url, headers };
}

/** As an OpenAI-compatible server streams. */
function openChat(response: ServerResponse): Chat {
  response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
  const chunk = { id: "chat-1", object: "chat.completion.chunk", created: 0, model: "small" };
  return {
    say: (content) =>
      response.write(
        `data: ${JSON.stringify({ ...chunk, choices: [{ index: 0, delta: { content } }] })}\n\n`,
      ),
    end: () => response.end("data: [DONE]\n\n"),
  };
}

/** As an MCP server over Streamable HTTP answers the first request. */
function answerMcp(response: ServerResponse, body: string): void {
  const { id } = JSON.parse(body) as { id: number };
  const serverInfo = { name: "orders", version: "1" };
  const result = { protocolVersion: "2025-06-18", capabilities: {}, serverInfo };
  response.writeHead(200, { "content-type": "text/event-stream", "mcp-session-id": "session-1" });
  response.end(`event: message\ndata: ${JSON.stringify({ jsonrpc: "2.0", id, result })}\n\n`);
}

/** What a client has sent in one short frame, as a server sends it. */
function unmasked(frame: Buffer): Buffer {
  const length = frame[1]! & 127;
  const mask = frame.subarray(2, 6);
  const payload = frame.subarray(6, 6 + length).map((byte, at) => byte ^ mask[at % 4]!);
  return Buffer.concat([Buffer.of(frame[0]!, length), payload]);
}
