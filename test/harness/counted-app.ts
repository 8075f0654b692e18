import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/**
 * An app behind HTTP that counts how often it was started with each text. The first word of a text
 * says what it does: `fail` answers 500, `hang` never answers, `wait` answers when the test calls
 * `release`; any other text comes back in capitals.
 */
export async function startCountedApp(port = 0) {
  const starts = new Map<string, number>();
  const waiting = new Map<string, ServerResponse>();
  let onStart = () => {};
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request.setEncoding("utf8")) body += chunk;
    const { text } = JSON.parse(body);
    starts.set(text, (starts.get(text) ?? 0) + 1);
    const [word] = text.split(" ");
    if (word === "fail") response.writeHead(500).end();
    else if (word === "wait") waiting.set(text, response);
    else if (word !== "hang") end(response, text.toUpperCase());
    onStart();
  });
  await once(server.listen(port, "127.0.0.1"), "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/run`;
  const startsOf = (text: string) => starts.get(text) ?? 0;
  return {
    backend: { kind: { case: "http", value: { url } } } as const,
    url,
    starts: startsOf,
    /** Every text that it was started with, and how often. */
    all: (): ReadonlyMap<string, number> => starts,
    /** Resolves once it was started with this text. */
    async started(text: string): Promise<void> {
      while (startsOf(text) === 0) {
        await new Promise<void>((resolve) => {
          const before = onStart;
          onStart = () => {
            before();
            resolve();
          };
        });
      }
    },
    release(text: string) {
      const response = waiting.get(text);
      waiting.delete(text);
      if (response) end(response, "released");
    },
    async close() {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}

function end(response: ServerResponse, text: string): void {
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ text }));
}
