import type { Socket } from "node:net";

/**
 * RFC 9113, section 3.4. No HTTP/1.1 method begins with these three letters, but POST shares the
 * first.
 */
const http2Preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");

/**
 * Reads the first bytes of a connection and puts them back. It is HTTP/2 once its whole preface has
 * arrived, and HTTP/1.1 as soon as the bytes differ from the preface. Calls `onProtocol` once, with
 * the number of the bytes and with the socket paused. If the socket ends or `msMax` is over before
 * that, destroys the socket instead: the timeouts of the servers do not apply to it yet.
 */
export function peekProtocol(
  socket: Socket,
  msMax: number,
  onProtocol: (protocol: "http1" | "http2", bytes: number) => void,
): void {
  let seen: Buffer = Buffer.alloc(0);
  const abandon = () => {
    stop();
    socket.destroy();
  };
  const look = () => {
    const chunk: Buffer | null = socket.read();
    if (chunk === null) return;
    seen = seen.length === 0 ? chunk : Buffer.concat([seen, chunk]);
    const protocol = protocolOf(seen);
    if (protocol === undefined) return;
    stop();
    socket.unshift(seen);
    onProtocol(protocol, seen.length);
  };
  const timer = setTimeout(abandon, msMax);
  const stop = () => {
    clearTimeout(timer);
    socket.off("readable", look).off("end", abandon).off("close", stop);
  };
  socket.on("readable", look).on("end", abandon).on("close", stop);
}

function protocolOf(seen: Buffer): "http1" | "http2" | undefined {
  const length = Math.min(seen.length, http2Preface.length);
  if (seen.compare(http2Preface, 0, length, 0, length) !== 0) return "http1";
  // Three bytes would be enough to decide. We wait for the whole preface, because an HTTP/2 session
  // has no time limit of its own for it.
  return length < http2Preface.length ? undefined : "http2";
}
