import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/**
 * An app behind HTTP that the text of the run controls. `fail` answers 500, `wait` answers when the
 * test calls `release`, and any other text comes back in capitals.
 */
export async function startScriptedApp() {
  const waiting = new Set<ServerResponse>();
  let started = () => {};
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request.setEncoding("utf8")) body += chunk;
    const { text } = JSON.parse(body);
    if (text === "fail") return void response.writeHead(500).end();
    if (text !== "wait") return void end(response, text.toUpperCase());
    waiting.add(response);
    response.once("close", () => waiting.delete(response));
    started();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  return {
    backend: { kind: { case: "http", value: { url: `http://127.0.0.1:${port}/run` } } } as const,
    url: `http://127.0.0.1:${port}/run`,
    /** Runs that wait. */
    waiting: () => waiting.size,
    /** Resolves once `count` runs wait. */
    async waits(count: number): Promise<void> {
      while (waiting.size < count) {
        await new Promise<void>((resolve) => {
          started = resolve;
        });
      }
    },
    release() {
      for (const response of waiting) end(response, "released");
    },
    /** Fails the runs that wait. */
    drop: () => server.closeAllConnections(),
    async close() {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}

function end(response: ServerResponse, text: string): void {
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ text }));
}
