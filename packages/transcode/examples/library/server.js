import { createServer } from "node:http";
import { createRouterTransport } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { createFetchHandler } from "connect-transcode/fetch-handler";
import { createNodeListener } from "connect-transcode/node-listener";
import { Library } from "./gen/library_pb.js";
import { routes } from "./routes.js";

const rest = createFetchHandler({ services: [Library], transport: createRouterTransport(routes) });

// REST where a rule takes the path, and the protocols of Connect everywhere else.
const server = createServer(createNodeListener(rest, connectNodeAdapter({ routes })));
server.listen(8080, "127.0.0.1");
