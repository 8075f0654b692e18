import { createGrpcApp } from "../app-backend.ts";
import { serveRunApp } from "../grpc-js-server.ts";
import { announce, appPlace } from "../subject.ts";

// The least that passes a run on with grpc-js both ways.
const run = createGrpcApp(appPlace);
const port = await serveRunApp(async ({ appId, text = "" }) => {
  return { runId: "run_0", appId, text: await run(appId, text) };
});
announce({ port });
