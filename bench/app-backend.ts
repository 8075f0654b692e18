import { create, fromBinary, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { ChannelCredentials, Client } from "@grpc/grpc-js";
import { RunRequestSchema, RunResponseSchema } from "#gen/keyrun/v1/app_backend_service_pb.ts";

const path = "/keyrun.v1.AppBackendService/Run";
const serialize = (message: MessageShape<typeof RunRequestSchema>) =>
  Buffer.from(toBinary(RunRequestSchema, message));
const deserialize = (bytes: Buffer) => fromBinary(RunResponseSchema, bytes);

/** Runs an app behind gRPC with grpc-js alone. */
export function createGrpcApp(target: string): (appId: string, text: string) => Promise<string> {
  const client = new Client(target, ChannelCredentials.createInsecure());
  return (appId, text) =>
    new Promise((resolve, reject) => {
      const request = create(RunRequestSchema, { runId: "run_0", teamId: "demo", appId, text });
      client.makeUnaryRequest(path, serialize, deserialize, request, (error, response) => {
        if (error || response === undefined) reject(error);
        else resolve(response.text ?? "");
      });
    });
}
