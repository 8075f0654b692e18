import { connect, createServer, type Socket } from "node:net";

/** A TCP proxy in front of a server, which a test can cut. */
export interface TcpProxy {
  readonly port: number;
  /** Delivers no more bytes and keeps connections open, as a lost network does. */
  freeze(): void;
  /** Freezes as soon as a caller sends these bytes, which still reach the server. */
  freezeOn(text: string): void;
  /** Ends all connections and takes no new ones. */
  cut(): void;
  /** Lets new connections through again, and ends the old ones. */
  mend(): void;
  close(): Promise<void>;
}

export async function openTcpProxy(target: { host: string; port: number }): Promise<TcpProxy> {
  let state: "open" | "frozen" | "cut" = "open";
  let freezing: string | undefined;
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy()).on("close", () => sockets.delete(socket));
    return socket;
  };
  const freeze = () => {
    state = "frozen";
    for (const socket of sockets) socket.unpipe().pause();
  };
  const server = createServer((near) => {
    keep(near);
    if (state === "cut") return near.destroy();
    if (state === "frozen") return near.pause();
    const far = keep(connect(target));
    near.on("data", (bytes) => {
      if (freezing !== undefined && bytes.includes(freezing)) freeze();
    });
    near.pipe(far).pipe(near);
    near.on("close", () => far.destroy());
    far.on("close", () => near.destroy());
    return undefined;
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const destroyAll = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: typeof address === "object" && address ? address.port : 0,
    freeze,
    freezeOn(text) {
      freezing = text;
    },
    cut() {
      state = "cut";
      destroyAll();
    },
    mend() {
      state = "open";
      destroyAll();
    },
    async close() {
      destroyAll();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
