import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** One run of the app, answered as the test says. */
export interface Talk {
  /** Sends the head of the answer. */
  begin(): void;
  /** Sends a piece, with the head if that is not sent yet. */
  say(text: string): void;
  /** Sends bytes that are no piece. */
  sayRubbish(text: string): void;
  end(): void;
  /** Answers with this status and nothing else. */
  fail(status: number): void;
  /** Ends the connection in the middle, after what was said. */
  breakOff(): void;
  /** Whether Keyrun reads no more of it, or has read all. */
  readonly isOver: boolean;
  /** Resolves when that is so. */
  readonly over: Promise<void>;
}

/** An app behind HTTP that streams lines of JSON, one conversation for each text of a run. */
export async function startTalkingApp() {
  const talks = new Map<string, Talk>();
  let begun = () => {};
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request.setEncoding("utf8")) body += chunk;
    talks.set(JSON.parse(body).text, talkOn(response));
    begun();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  return {
    backend: { kind: { case: "http", value: { url: `http://127.0.0.1:${port}/` } } } as const,
    /** The run with this text, as soon as it has come. */
    async talk(text: string): Promise<Talk> {
      for (;;) {
        const talk = talks.get(text);
        if (talk) return talk;
        await new Promise<void>((resolve) => {
          const before = begun;
          begun = () => {
            before();
            resolve();
          };
        });
      }
    },
    async close() {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}

function talkOn(response: ServerResponse): Talk {
  let isOver = false;
  const over = new Promise<void>((resolve) => {
    response.once("close", () => {
      isOver = true;
      resolve();
    });
  });
  response.on("error", () => {});
  const begin = () => {
    if (response.headersSent) return;
    response.writeHead(200, { "content-type": "application/x-ndjson" }).flushHeaders();
  };
  const write = (text: string) => {
    begin();
    response.write(text);
  };
  return {
    begin,
    over,
    get isOver() {
      return isOver;
    },
    say: (text) => write(`${JSON.stringify({ text })}\n`),
    sayRubbish: write,
    end() {
      begin();
      response.end();
    },
    fail: (status) => void response.writeHead(status).end(),
    // What was said is with the socket a turn later.
    breakOff: () => void setImmediate(() => response.socket?.destroySoon()),
  };
}
