import { status } from "@grpc/grpc-js";
import { serveRunApp } from "../grpc-js-server.ts";
import { apiKey, isAuthorized, limitPerMinute } from "../key-and-limit.ts";
import { announce } from "../subject.ts";

let count = 0;

// The same work as a grpc-js server.
const port = await serveRunApp(async ({ appId, text = "" }, metadata) => {
  if (!isAuthorized(String(metadata.get("authorization")[0]))) throw { code: status.UNAUTHENTICATED };
  if (++count > limitPerMinute) throw { code: status.RESOURCE_EXHAUSTED };
  return { runId: `run_${crypto.randomUUID()}`, appId, text };
});
announce({ port, apiKeys: [apiKey] });
