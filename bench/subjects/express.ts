import type { AddressInfo } from "node:net";
import express from "express";
import { rateLimit } from "express-rate-limit";
import { apiKey, isAuthorized, limitPerMinute } from "../key-and-limit.ts";
import { announce } from "../subject.ts";

// The same work with express and express-rate-limit: key, limit by team, JSON, echo.
const app = express();
app.use((req, res, next) => {
  if (isAuthorized(req.headers.authorization)) next();
  else res.status(401).json({ error: "invalid" });
});
app.use(
  rateLimit({ windowMs: 60_000, limit: limitPerMinute, keyGenerator: () => "demo", legacyHeaders: false }),
);
app.use(express.json());
app.post("/api/apps/:app_id/run", (req, res) => {
  const { text } = req.body;
  if (typeof text !== "string") res.status(400).json({ error: "text must be a string" });
  else res.json({ runId: `run_${crypto.randomUUID()}`, appId: req.params.app_id, text });
});
const server = app.listen(0, "127.0.0.1", () => {
  announce({ port: (server.address() as AddressInfo).port, apiKeys: [apiKey] });
});
