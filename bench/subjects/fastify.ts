import type { AddressInfo } from "node:net";
import rateLimit from "@fastify/rate-limit";
import { fastify } from "fastify";
import { apiKey, isAuthorized, limitPerMinute } from "../key-and-limit.ts";
import { announce } from "../subject.ts";

// The same work with fastify and its rate limiter: key, limit by team, schema, echo.
const app = fastify();
await app.register(rateLimit, { max: limitPerMinute, timeWindow: 60_000, keyGenerator: () => "demo" });
const body = {
  type: "object",
  properties: { text: { type: "string" } },
  required: ["text"],
  additionalProperties: false,
};
app.post<{ Params: { app_id: string }; Body: { text: string } }>(
  "/api/apps/:app_id/run",
  { schema: { body } },
  async (request, reply) => {
    if (!isAuthorized(request.headers.authorization)) return reply.code(401).send({ error: "invalid" });
    return { runId: `run_${crypto.randomUUID()}`, appId: request.params.app_id, text: request.body.text };
  },
);
await app.listen({ port: 0, host: "127.0.0.1" });
announce({ port: (app.server.address() as AddressInfo).port, apiKeys: [apiKey] });
