/**
 * An app behind gRPC that answers in capitals. Start it, and tell Keyrun where it is:
 *
 *     node examples/grpc-app.ts
 *     ./keyrun apps create shout --backend grpc --target 127.0.0.1:9001
 *
 * Any gRPC server works that implements `proto/keyrun/v1/app_backend_service.proto`.
 */
import { createServer } from "node:http2";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { AppBackendService } from "#gen/keyrun/v1/app_backend_service_pb.ts";

const handler = connectNodeAdapter({
  routes: (router) =>
    router.service(AppBackendService, {
      // The signal is aborted when the deadline has passed or Keyrun has cancelled the run.
      run: async ({ text = "" }, { signal }) => ({ text: await shout(text, signal) }),
    }),
});

/** Your app goes here. It may stop when the signal is aborted. */
async function shout(text: string, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted();
  return text.toUpperCase();
}

const server = createServer(handler);
server.listen(Number(process.env.PORT ?? 9001), "127.0.0.1", () => {
  const address = server.address();
  if (address !== null && typeof address === "object") {
    console.log(`The app listens on 127.0.0.1:${address.port}`);
  }
});
