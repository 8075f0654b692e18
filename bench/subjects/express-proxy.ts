import { Agent } from "node:http";
import type { AddressInfo } from "node:net";
import express from "express";
import { rateLimit } from "express-rate-limit";
import { createProxyMiddleware } from "http-proxy-middleware";
import { apiKey, isAuthorized, limitPerMinute } from "../key-and-limit.ts";
import { announce, appPlace } from "../subject.ts";

// The same work with express, express-rate-limit and http-proxy-middleware: key, limit by team,
// pass the run on over kept connections.
const { origin, pathname } = new URL(appPlace);
const app = express();
app.use((req, res, next) => {
  if (isAuthorized(req.headers.authorization)) next();
  else res.status(401).json({ error: "invalid" });
});
app.use(
  rateLimit({ windowMs: 60_000, limit: limitPerMinute, keyGenerator: () => "demo", legacyHeaders: false }),
);
app.post(
  "/api/apps/:app_id/run",
  createProxyMiddleware({
    target: origin,
    agent: new Agent({ keepAlive: true }),
    pathRewrite: () => pathname,
  }),
);
const server = app.listen(0, "127.0.0.1", () => {
  announce({ port: (server.address() as AddressInfo).port, apiKeys: [apiKey] });
});
