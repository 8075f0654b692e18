import { createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { RunAppRequestSchema, RunAppResponseSchema } from "#gen/keyrun/v1/run_service_pb.ts";
import { announce } from "../subject.ts";

// The least that answers a unary gRPC call on the core stream API. No key, no limit, no routes.
const server = createServer();
server.on("stream", (stream) => {
  const chunks: Buffer[] = [];
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  stream.on("end", () => {
    const { appId, text = "" } = fromBinary(RunAppRequestSchema, Buffer.concat(chunks).subarray(5));
    const message = toBinary(
      RunAppResponseSchema,
      create(RunAppResponseSchema, { runId: "run_0", appId, text }),
    );
    const frame = Buffer.alloc(5 + message.length);
    frame.writeUInt32BE(message.length, 1);
    frame.set(message, 5);
    stream.respond({ ":status": 200, "content-type": "application/grpc+proto" }, { waitForTrailers: true });
    stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
    stream.end(frame);
  });
});
server.listen(0, "127.0.0.1", () => announce({ port: (server.address() as AddressInfo).port }));
