import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { closedAtEnd } from "../../harness/closed-at-end.ts";
import { h2cAnswer, h2cRequest, h2cSession } from "../../harness/h2c-client.ts";
import { startKeyrun } from "../../harness/keyrun.ts";
import { rawSocket } from "../../harness/raw-socket.ts";

let key = "";

const keyrun = closedAtEnd(await startKeyrun());
key = (await keyrun.newKey("demo")).value;

// The timer that would cut off the rest of a body never fires: the answers come without it.
beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());

const bytes = 2 * 1024 * 1024;

function framed(): Buffer {
  const message = Buffer.alloc(5 + bytes, "x");
  message[0] = 0;
  message.writeUInt32BE(bytes, 1);
  return message;
}

const calls = [
  ["Connect", "RunService/RunApp", "application/json", Buffer.from(`{"text":"${"x".repeat(bytes)}"}`)],
  ["gRPC-Web", "RunService/RunApp", "application/grpc-web+proto", framed()],
  ["gRPC through Connect", "RunService/RunApp?by=connect", "application/grpc", framed()],
  ["a Connect stream", "KeyService/WatchKeys", "application/connect+json", framed()],
] as const;

function headersOf(rpc: string, type: string): Record<string, string> {
  const token = rpc.startsWith("RunService") ? key : keyrun.serviceToken;
  return { authorization: `Bearer ${token}`, "content-type": type, "connect-protocol-version": "1" };
}

function refusals(): number {
  return keyrun.logLines.filter((line) => line.includes('"reason":"REQUEST_TOO_LARGE"')).length;
}

test.each(calls)(
  "over HTTP/1.1 a message of %s that is too large is refused at once, and the connection's next request is answered",
  async (_, rpc, type, body) => {
    const before = refusals();
    const client = rawSocket({ port: Number(new URL(keyrun.internalUrl).port) });
    const head = Object.entries({ host: "a", ...headersOf(rpc, type), "transfer-encoding": "chunked" });
    const lines = head.map(([name, value]) => `${name}: ${value}\r\n`).join("");
    client.send(`POST /keyrun.v1.${rpc} HTTP/1.1\r\n${lines}\r\n`);
    client.send(`${body.length.toString(16)}\r\n`);
    // The answer arrives before the body has ended.
    client.send(body);
    await client.until((heard) => decodeURIComponent(heard).includes("larger than 1048576"));
    client.send("\r\n0\r\n\r\nGET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n");
    await client.until((heard) => heard.includes("HTTP/1.1 404"));
    expect(refusals()).toBe(before + 1);
    client.socket.destroy();
  },
);

test.each(calls)(
  "over HTTP/2 a message of %s that is too large is refused at once, its stream is closed, and the next one is served",
  async (_, rpc, type, body) => {
    const session = await h2cSession(keyrun.internalUrl);
    const stream = session.request({
      ":method": "POST",
      ":path": `/keyrun.v1.${rpc}`,
      ...headersOf(rpc, type),
    });
    const answer = h2cAnswer(stream);
    stream.end(body);
    const { headers, body: text } = await answer;
    // Over gRPC in the head: a client that ends its upload with it would lose what came later.
    const told = decodeURIComponent(`${text}${headers["grpc-message"] ?? ""}`);
    expect(told).toContain("larger than 1048576");
    expect((await h2cRequest(session, { ":path": "/nowhere" })).status).toBe(404);
    session.close();
  },
);
