import { connect, createServer, type Socket } from "node:net";

/** A TCP proxy in front of a server, which a test can cut. */
export interface TcpProxy {
  readonly port: number;
  /** Delivers no more bytes and keeps connections open, as a lost network does. */
  freeze(): void;
  /** Freezes as soon as a caller sends these bytes, which still reach the server. */
  freezeOn(text: string): void;
  /** From now on each byte arrives so much later, in both directions. */
  delay(ms: number): void;
  /** Ends all connections and takes no new ones. */
  cut(): void;
  /** Lets new connections through again, without a delay, and ends the old ones. */
  mend(): void;
  /** How many connections callers have opened, of those it took and those it did not. */
  opened(): number;
  close(): Promise<void>;
}

/** A change of the target's port counts for new connections. */
export async function openTcpProxy(target: { host: string; port: number }): Promise<TcpProxy> {
  let state: "open" | "frozen" | "cut" = "open";
  let freezing: string | undefined;
  let delayMs = 0;
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy()).on("close", () => sockets.delete(socket));
    return socket.setNoDelay(true);
  };
  const freeze = () => {
    state = "frozen";
    for (const socket of sockets) socket.pause();
  };
  let opened = 0;
  const server = createServer((near) => {
    opened += 1;
    keep(near);
    if (state === "cut") return near.destroy();
    if (state === "frozen") return near.pause();
    const far = keep(connect(target));
    const forward = (from: Socket, to: Socket, bytes: Buffer) => {
      if (state !== "open" || to.destroyed || to.write(bytes)) return;
      from.pause();
      to.once("drain", () => state === "open" && from.resume());
    };
    const toServer = inOrder(() => delayMs);
    const toCaller = inOrder(() => delayMs);
    near.on("data", (bytes) => {
      toServer(() => forward(near, far, bytes));
      if (freezing !== undefined && bytes.includes(freezing)) freeze();
    });
    far.on("data", (bytes) => toCaller(() => forward(far, near, bytes)));
    near.on("close", () => toServer(() => far.destroy()));
    far.on("close", () => toCaller(() => near.destroy()));
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
    delay(ms) {
      delayMs = ms;
    },
    cut() {
      state = "cut";
      destroyAll();
    },
    mend() {
      state = "open";
      freezing = undefined;
      delayMs = 0;
      destroyAll();
    },
    opened: () => opened,
    async close() {
      destroyAll();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Does what it is given after the delay, never before what it was given earlier. */
function inOrder(delayMs: () => number): (work: () => void) => void {
  const waiting: (() => void)[] = [];
  let dueMs = 0;
  return (work) => {
    const nowMs = performance.now();
    dueMs = Math.max(dueMs, nowMs + delayMs());
    if (waiting.length === 0 && dueMs <= nowMs) return work();
    waiting.push(work);
    setTimeout(() => waiting.shift()?.(), dueMs - nowMs);
  };
}
