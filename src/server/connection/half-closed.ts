import type { Socket } from "node:net";
import type { NodeResponse } from "../node-http.ts";
import { answerOn } from "./connection-refusals.ts";

export interface HalfClosedOptions {
  /** The answers that are not finished, over HTTP/1.1 and HTTP/2. */
  readonly running: Iterable<NodeResponse>;
  /** The first wait between two looks at a caller. Each further wait is twice as long. */
  readonly checkMs: number;
}

/** The begin of every answer, whatever it will be. */
const answerBegin = "HTTP/1.1 ";

/**
 * Serves a caller that closes its end of the connection after its request. That alone does not say
 * whether it still waits for the answer or is gone: a killed process closes its end too. Only bytes
 * show it, because a system answers them with a reset if no program reads them. So while the answer
 * is being computed, its first bytes are written one by one. They are the same for every answer.
 * The write after a reset fails, and then the connection closes and the request is cancelled.
 *
 * A caller that closes its end during a streamed answer is taken as gone.
 */
export function serveHalfClosed(socket: Socket, { running, checkMs }: HalfClosedOptions): void {
  socket.once("end", () => {
    const current = answerOn(socket, running);
    if (current === undefined || !socket.allowHalfOpen || !socket.writable) return;
    if (current.headersSent) {
      if (!current.writableEnded) socket.end();
      return;
    }
    const begin = createBegin(socket);
    let waitMs = checkMs;
    const look = () => {
      if (answerOn(socket, running)?.headersSent === false) begin.writeNext();
      timer = setTimeout(look, waitMs).unref();
      waitMs *= 2;
    };
    let timer: NodeJS.Timeout | undefined;
    socket.once("close", () => clearTimeout(timer));
    look();
  });
}

/** Writes the begin of the next answer in advance. The answer itself then goes on from there. */
function createBegin(socket: Socket): { writeNext(): void } {
  const write = socket.write.bind(socket);
  let written = 0;
  const rest = (chunk: string | Uint8Array) => {
    const from = written;
    written = 0;
    return from === 0 ? chunk : chunk.slice(from);
  };
  socket.write = (chunk: string | Uint8Array, ...others: never[]) => write(rest(chunk), ...others);
  return {
    writeNext() {
      if (written === answerBegin.length || !socket.writable) return;
      write(answerBegin.charAt(written));
      written += 1;
    },
  };
}
