import { connect as netConnect, type Socket } from "node:net";
import { type ConnectionOptions, connect as tlsConnect } from "node:tls";

/** A client that says exactly the bytes that a test wants said, and keeps all that it hears. */
export interface RawSocket {
  readonly socket: Socket;
  /** Everything heard so far, one character a byte. */
  heard(): string;
  send(bytes: string | Uint8Array): void;
  /** Resolves with all that was heard once it satisfies the condition; rejects where the connection ends first. */
  until(condition: (heard: string) => boolean): Promise<string>;
  /** Resolves with all that was heard once the connection has closed, whoever closed it, and how. */
  closed(): Promise<string>;
}

/** With `allowHalfOpen` it stays open when the server says that it closes, as a hostile client would. */
export function rawSocket(at: { port: number; allowHalfOpen?: boolean }): RawSocket {
  return listening(netConnect({ host: "127.0.0.1", allowHalfOpen: false, ...at }));
}

/** The same over TLS. */
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
  // A reset is one of the ways in which a server closes; `close` follows it.
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

/** One HTTP/1.1 answer as it was sent. */
export interface RawAnswer {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

/** The answers in what was heard, as far as they are whole; each has a Content-Length. */
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
