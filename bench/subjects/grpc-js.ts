import { create, fromBinary, type MessageShape, toBinary } from "@bufbuild/protobuf";
import {
  type handleUnaryCall,
  Server,
  ServerCredentials,
  status,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import { RunAppRequestSchema, RunAppResponseSchema } from "#gen/keyrun/v1/run_service_pb.ts";
import { apiKey, isAuthorized, limitPerMinute } from "../key-and-limit.ts";
import { announce } from "../subject.ts";

type Request = MessageShape<typeof RunAppRequestSchema>;
type Response = MessageShape<typeof RunAppResponseSchema>;
let count = 0;

// The same work as a grpc-js server.
const definition = {
  runApp: {
    path: "/keyrun.v1.RunService/RunApp",
    requestStream: false,
    responseStream: false,
    requestSerialize: (message: Request) => Buffer.from(toBinary(RunAppRequestSchema, message)),
    requestDeserialize: (bytes: Buffer) => fromBinary(RunAppRequestSchema, bytes),
    responseSerialize: (message: Response) => Buffer.from(toBinary(RunAppResponseSchema, message)),
    responseDeserialize: (bytes: Buffer) => fromBinary(RunAppResponseSchema, bytes),
  },
} as const;
const runApp: handleUnaryCall<Request, Response> = ({ request, metadata }, callback) => {
  if (!isAuthorized(String(metadata.get("authorization")[0]))) callback({ code: status.UNAUTHENTICATED });
  else if (++count > limitPerMinute) callback({ code: status.RESOURCE_EXHAUSTED });
  else {
    const { appId, text = "" } = request;
    callback(null, create(RunAppResponseSchema, { runId: `run_${crypto.randomUUID()}`, appId, text }));
  }
};
const implementation: UntypedServiceImplementation = { runApp };
const server = new Server();
server.addService(definition, implementation);
server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) => {
  if (error) throw error;
  announce({ port, apiKey });
});
