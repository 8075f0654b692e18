import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/**
 * A TCP proxy in front of a server. It can lose answers: the server sent them, and nobody got them.
 */
export async function openLosingProxy(target: { host: string; port: number }) {
  const sockets = new Set<Socket>();
  let toLose = 0;
  let lost = 0;
  const server = createServer((near) => {
    const far = connect(target);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on("error", () => socket.destroy()).on("close", () => sockets.delete(socket));
    }
    near.pipe(far);
    far.on("data", (bytes) => {
      if (toLose === 0) return void near.write(bytes);
      toLose -= 1;
      lost += 1;
      near.resetAndDestroy();
      far.destroy();
    });
    near.on("close", () => far.destroy());
    far.on("close", () => near.destroy());
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    port: (server.address() as AddressInfo).port,
    /** Loses the next answers, and counts them from 0. */
    loseAnswers(count: number) {
      toLose = count;
      lost = 0;
    },
    lost: () => lost,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((closed) => server.close(closed));
    },
  };
}
