import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/**
 * An app behind HTTP that streams what the test writes, one run at a time. Each function waits for
 * a run that is open.
 */
export async function serveStreamedWords() {
  let open = Promise.withResolvers<ServerResponse>();
  let gone = Promise.withResolvers<void>();
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(200, { "Content-Type": "text/event-stream" }).flushHeaders();
    response.on("close", () => {
      open = Promise.withResolvers();
      gone.resolve();
      gone = Promise.withResolvers();
    });
    open.resolve(response);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/run`,
    async write(text: string) {
      (await open.promise).write(`data: ${JSON.stringify({ text })}\n\n`);
    },
    async end() {
      (await open.promise).end();
    },
    /** Cuts the connection in the middle of the answer. */
    async breakOff() {
      (await open.promise).destroy();
    },
    /** Resolves when the open run is over, by either side. */
    over: () => gone.promise,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}
