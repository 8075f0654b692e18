import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** A TCP proxy that remembers what callers have sent. */
export interface Tap {
  readonly host: string;
  /** By connection. */
  readonly sent: readonly Sent[];
  /** Ends all connections, and takes no more. */
  close(): Promise<void>;
}

interface Sent {
  /** The first 64 KiB. */
  text: string;
  bytes: number;
}

export async function openTap(targetHost: string): Promise<Tap> {
  const { hostname: host, port } = new URL(`http://${targetHost}`);
  const sockets = new Set<Socket>();
  const sent: Sent[] = [];
  const keep = (socket: Socket, other: () => Socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).on("close", () => sockets.delete(socket) && other().destroy());
  };
  const server = createServer((near) => {
    const far = connect({ host, port: Number(port) });
    keep(near, () => far);
    keep(far, () => near);
    const own: Sent = { text: "", bytes: 0 };
    sent.push(own);
    near.on("data", (part) => {
      own.bytes += part.length;
      if (own.text.length < 65_536) own.text += part.toString("latin1");
    });
    near.pipe(far).pipe(near);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    sent,
    async close() {
      if (!server.listening) return;
      server.close();
      for (const socket of sockets) socket.destroy();
      await once(server, "close");
    },
  };
}
