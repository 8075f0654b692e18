import { once } from "node:events";
import { createServer, request as send } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";

/**
 * A small HTTP proxy on a loopback port, as stands before many networks: it forwards plain
 * requests, and opens tunnels for TLS by CONNECT.
 */
export interface ForwardProxy {
  readonly url: string;
  /** What was asked for: `GET http://…`, or `CONNECT host:port`. */
  readonly asked: readonly string[];
  close(): void;
}

/** `portOf` is the port at which a tunnel to this authority really ends, on the loopback. */
export async function startForwardProxy(
  portOf: (authority: string) => number = (authority) => Number(authority.split(":").at(-1)),
): Promise<ForwardProxy> {
  const asked: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((req, res) => {
    asked.push(`${req.method} ${req.url}`);
    const onward = send(`${req.url}`, { method: req.method ?? "GET", headers: req.headers });
    onward.on("response", (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(res);
    });
    onward.on("error", () => res.destroy());
    req.pipe(onward);
  });
  server.on("connect", (req, socket: Socket, head: Buffer) => {
    asked.push(`CONNECT ${req.url}`);
    const target = connect(portOf(`${req.url}`), "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 Connection Established\r\n\r\n");
      target.write(head);
      socket.pipe(target).pipe(socket);
    });
    for (const each of [socket, target]) {
      sockets.add(each.on("close", () => sockets.delete(each)));
      each.on("error", () => {
        socket.destroy();
        target.destroy();
      });
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    close() {
      server.close();
      server.closeAllConnections();
      for (const socket of sockets) socket.destroy();
    },
  };
}
