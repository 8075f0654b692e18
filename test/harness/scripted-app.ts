import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/**
 * An app behind HTTP that counts how often it was started with each text. The first word of a text
 * says what it does: `fail` answers 500, `refuse` answers 422 with the text as its words, `busy`
 * answers 503 and to wait 7 s, `hang` never answers, `wait` answers when the test calls `release`;
 * any other text comes back in capitals.
 */
export async function startScriptedApp(port = 0) {
  const starts = new Map<string, number>();
  const waiting = new Map<ServerResponse, string>();
  const lookers = new Set<() => void>();
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request.setEncoding("utf8")) body += chunk;
    const { text } = JSON.parse(body);
    starts.set(text, startsOf(text) + 1);
    const [word] = text.split(" ");
    if (word === "fail") response.writeHead(500).end();
    else if (word === "refuse") response.writeHead(422).end(JSON.stringify({ error: { message: text } }));
    else if (word === "busy") response.writeHead(503, { "retry-after": "7" }).end();
    else if (word === "wait") {
      waiting.set(response, text);
      response.once("close", () => waiting.delete(response));
    } else if (word !== "hang") end(response, text.toUpperCase());
    for (const look of lookers) look();
  });
  await once(server.listen(port, "127.0.0.1"), "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/run`;
  const startsOf = (text: string) => starts.get(text) ?? 0;

  /** Resolves once it is so. */
  function until(isSo: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const look = () => {
        if (!isSo()) return;
        lookers.delete(look);
        resolve();
      };
      lookers.add(look);
      look();
    });
  }

  return {
    backend: { kind: { case: "http", value: { url } } } as const,
    url,
    starts: startsOf,
    /** Every text that it was started with, and how often. */
    all: (): ReadonlyMap<string, number> => starts,
    /** Resolves once it was started with this text. */
    started: (text: string) => until(() => startsOf(text) > 0),
    /** Whether a run with this text waits, and its connection is open. */
    isWaiting: (text: string) => [...waiting.values()].includes(text),
    /** Runs that wait. */
    waiting: () => waiting.size,
    /** Resolves once `count` runs wait. */
    waits: (count: number) => until(() => waiting.size >= count),
    /** Answers the runs that wait: those with this text, or all. */
    release(text?: string) {
      for (const [response, own] of waiting)
        if (text === undefined || own === text) end(response, "released");
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
