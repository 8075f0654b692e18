import { once } from "node:events";
import { createServer } from "node:net";

/**
 * A loopback port that is not in use, for a server that must know its port before it starts. It
 * stays free while its server is down, or where none ever starts: the system gives connections of
 * clients, and servers that ask for any port, those from 32768 on.
 */
export async function freePort(): Promise<number> {
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
