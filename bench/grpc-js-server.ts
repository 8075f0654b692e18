import { create, fromBinary, type MessageInitShape, type MessageShape, toBinary } from "@bufbuild/protobuf";
import {
  type handleUnaryCall,
  type Metadata,
  Server,
  ServerCredentials,
  type StatusObject,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import { RunAppRequestSchema, RunAppResponseSchema } from "#gen/keyrun/v1/run_service_pb.ts";

type Request = MessageShape<typeof RunAppRequestSchema>;
type Response = MessageShape<typeof RunAppResponseSchema>;

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

/** A grpc-js server with RunApp alone. What `run` throws becomes the status. Returns the port. */
export function serveRunApp(
  run: (request: Request, metadata: Metadata) => Promise<MessageInitShape<typeof RunAppResponseSchema>>,
): Promise<number> {
  const runApp: handleUnaryCall<Request, Response> = ({ request, metadata }, callback) => {
    run(request, metadata).then(
      (response) => callback(null, create(RunAppResponseSchema, response)),
      (thrown: Partial<StatusObject>) => callback(thrown),
    );
  };
  const implementation: UntypedServiceImplementation = { runApp };
  const server = new Server();
  server.addService(definition, implementation);
  return new Promise((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) =>
      error ? reject(error) : resolve(port),
    );
  });
}
