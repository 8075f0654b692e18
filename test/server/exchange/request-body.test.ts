import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { expect, test } from "vitest";
import { unlimitedReservation } from "#src/limit/byte-budget.ts";
import { RequestBody } from "#src/server/exchange/request-body.ts";
import { headOf } from "#src/server/node-http.ts";
import { transportLimits } from "#src/server/transport.ts";
import { until } from "../../harness/until.ts";

test.each([1, 2, 3, 7])("a body that has arrived in %i chunks is at hand whole", async (count) => {
  const parts = Array.from({ length: count }, (_, at) => String(at).repeat(9_000));
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1").setNoDelay();
  try {
    socket.write(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${parts.join("").length}\r\n\r\n`);
    const [req, res] = (await once(server, "request")) as [IncomingMessage, ServerResponse];
    const body = new RequestBody({ head: headOf(req), req, res }, transportLimits);
    for (const [at, part] of parts.entries()) {
      socket.write(part);
      await until(() => req.readableLength === (at + 1) * part.length);
    }
    await until(() => req.complete);
    const outcome = body.atHand(1_000_000, unlimitedReservation);
    expect(outcome?.kind === "whole" && Buffer.from(outcome.bytes).toString()).toBe(parts.join(""));
  } finally {
    socket.destroy();
    server.close();
  }
});
