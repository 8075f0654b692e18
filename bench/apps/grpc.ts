import { createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { RunRequestSchema, RunResponseSchema } from "#gen/keyrun/v1/app_backend_service_pb.ts";
import { answerGrpc } from "../bare-grpc.ts";
import { announce } from "../subject.ts";

// The app behind the gateways, over gRPC: it answers with the text that it was sent.
const server = createServer();
server.on("stream", (stream) => {
  answerGrpc(stream, (message) => {
    const { text } = fromBinary(RunRequestSchema, message);
    return toBinary(RunResponseSchema, create(RunResponseSchema, { text }));
  });
});
server.listen(0, "127.0.0.1", () => {
  announce({ place: `127.0.0.1:${(server.address() as AddressInfo).port}` });
});
