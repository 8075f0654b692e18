import { createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { RunAppRequestSchema, RunAppResponseSchema } from "#gen/keyrun/v1/run_service_pb.ts";
import { answerGrpc } from "../bare-grpc.ts";
import { announce } from "../subject.ts";

// The least that answers a run over gRPC. No key, no limit, no routes.
const server = createServer();
server.on("stream", (stream) => {
  answerGrpc(stream, (message) => {
    const { appId, text = "" } = fromBinary(RunAppRequestSchema, message);
    return toBinary(RunAppResponseSchema, create(RunAppResponseSchema, { runId: "run_0", appId, text }));
  });
});
server.listen(0, "127.0.0.1", () => announce({ port: (server.address() as AddressInfo).port }));
