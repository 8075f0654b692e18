import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";

/** A loopback port that is not in use, for a server that must know its port before it starts. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

/**
 * A port that stays free while its server is down: the system gives connections of clients ports
 * from 32768 on, and could give them that of a server that is about to come back.
 */
export async function keptPort(): Promise<number> {
  for (;;) {
    const port = 12_000 + Math.floor(Math.random() * 20_000);
    const server = createServer().listen(port, "127.0.0.1");
    const [taken] = await Promise.race([
      once(server, "listening").then(() => [false]),
      once(server, "error").then(() => [true]),
    ]);
    if (taken) continue;
    server.close();
    await once(server, "close");
    return port;
  }
}
