import { connect as netConnect, type Socket } from "node:net";
import { type ConnectionOptions, connect as tlsConnect } from "node:tls";

/** A client that sends exactly the bytes of the test, and keeps everything that it receives. */
export interface RawSocket {
  readonly socket: Socket;
  /** Everything received so far, one character for each byte. */
  heard(): string;
  send(bytes: string | Uint8Array): void;
  /**
   * Resolves with everything received once it meets the condition. Rejects if the connection
   * closes.
   */
  until(condition: (heard: string) => boolean): Promise<string>;
  /** Resolves with everything received once either side has closed the connection. */
  closed(): Promise<string>;
}

/** With `allowHalfOpen` the client stays open when the server closes, as a hostile client might. */
export function rawSocket(at: { port: number; allowHalfOpen?: boolean }): RawSocket {
  return listening(netConnect({ host: "127.0.0.1", allowHalfOpen: false, ...at }));
}

/** A raw socket over TLS. */
export function rawTlsSocket(options: ConnectionOptions): RawSocket {
  return listening(tlsConnect(options));
}

function listening(socket: Socket): RawSocket {
  let text = "";
  let over = false;
  const checks = new Set<() => void>();
  const check = () => {
    for (const one of [...checks]) one();
  };
  socket.setNoDelay(true);
  socket.on("data", (chunk: Buffer) => {
    text += chunk.toString("latin1");
    check();
  });
  // A server may close the connection with a reset. `close` follows the error.
  socket.on("error", () => undefined);
  socket.on("close", () => {
    over = true;
    check();
  });
  const when = (done: () => boolean, failed: () => boolean) =>
    new Promise<string>((resolve, reject) => {
      const one = () => {
        if (!done() && !failed()) return;
        checks.delete(one);
        if (done()) resolve(text);
        else reject(new Error(`The connection closed after: ${JSON.stringify(text.slice(-500))}`));
      };
      checks.add(one);
      one();
    });
  return {
    socket,
    heard: () => text,
    send: (bytes) => void socket.write(bytes),
    until: (condition) =>
      when(
        () => condition(text),
        () => over,
      ),
    closed: () =>
      when(
        () => over,
        () => false,
      ),
  };
}

/** An HTTP/1.1 answer. */
export interface RawAnswer {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

/** The complete answers in the received text. Each must have a Content-Length. */
export function answersIn(heard: string): RawAnswer[] {
  const answers: RawAnswer[] = [];
  for (let rest = heard; ; ) {
    const headEnd = rest.indexOf("\r\n\r\n");
    if (headEnd < 0) return answers;
    const [statusLine = "", ...lines] = rest.slice(0, headEnd).split("\r\n");
    const headers = new Map(
      lines.map((line) => [
        line.slice(0, line.indexOf(":")).toLowerCase(),
        line.slice(line.indexOf(":") + 2),
      ]),
    );
    const length = Number(headers.get("content-length") ?? 0);
    const body = rest.slice(headEnd + 4, headEnd + 4 + length);
    if (body.length < length) return answers;
    answers.push({ status: Number(statusLine.split(" ")[1]), headers, body });
    rest = rest.slice(headEnd + 4 + length);
  }
}
