import type { Socket } from "node:net";

/** RFC 9113, section 3.4. No HTTP/1.1 method begins with these three letters, but POST shares the first. */
const http2Preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");

/**
 * Looks at the first bytes of a connection and puts them back: HTTP/2 where its whole preface arrived, HTTP/1.1 as
 * soon as it can't be that. `onProtocol` is called once, with the socket paused; it is never called where the socket
 * closes first or `msMax` is over, and then the socket is destroyed: no server's own timeouts know of it yet.
 */
export function peekProtocol(
  socket: Socket,
  msMax: number,
  onProtocol: (protocol: "http1" | "http2") => void,
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
    onProtocol(protocol);
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
  // Three bytes would tell, but the whole preface is awaited: an HTTP/2 session has no time limit of its own for it.
  return length < http2Preface.length ? undefined : "http2";
}
