import type { AddressInfo } from "node:net";
import httpProxy from "@fastify/http-proxy";
import rateLimit from "@fastify/rate-limit";
import { fastify } from "fastify";
import { apiKey, isAuthorized, limitPerMinute } from "../key-and-limit.ts";
import { announce, appPlace } from "../subject.ts";

// The same work with fastify, its rate limiter and its proxy: key, limit by team, pass the run on.
const { origin, pathname } = new URL(appPlace);
const app = fastify();
await app.register(rateLimit, { max: limitPerMinute, timeWindow: 60_000, keyGenerator: () => "demo" });
await app.register(httpProxy, {
  upstream: origin,
  prefix: "/api/apps/:app_id/run",
  rewritePrefix: pathname,
  httpMethods: ["POST"],
  preHandler: async (request, reply) => {
    if (!isAuthorized(request.headers.authorization)) await reply.code(401).send({ error: "invalid" });
  },
});
await app.listen({ port: 0, host: "127.0.0.1" });
announce({ port: (app.server.address() as AddressInfo).port, apiKeys: [apiKey] });
