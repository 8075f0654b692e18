import { type CallerMaker, connectCallers } from "../harness/callers.ts";
import { grpcJsCaller } from "../harness/grpc-js-caller.ts";
import { restCaller, restH2Caller } from "../harness/rest-caller.ts";

/** Every way to run an app, each by its name. Those of REST begin with `REST`. */
export const everyCaller: Readonly<Record<string, CallerMaker>> = {
  "REST over HTTP/1.1": restCaller,
  "REST over HTTP/2": restH2Caller,
  ...connectCallers,
  "gRPC by grpc-js": grpcJsCaller,
};
