import type { ServerHttp2Stream } from "node:http2";

/** The least that answers a unary gRPC call on the core stream API. */
export function answerGrpc(stream: ServerHttp2Stream, answer: (message: Uint8Array) => Uint8Array): void {
  const chunks: Buffer[] = [];
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  stream.on("end", () => {
    const frame = grpcFrame(answer(Buffer.concat(chunks).subarray(5)));
    stream.respond({ ":status": 200, "content-type": "application/grpc+proto" }, { waitForTrailers: true });
    stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
    stream.end(frame);
  });
}

/** A message with its prefix of five bytes. */
export function grpcFrame(message: Uint8Array): Buffer {
  const frame = Buffer.alloc(5 + message.length);
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, 5);
  return frame;
}
