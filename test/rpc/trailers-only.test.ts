import { expect, test } from "vitest";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { http2 } from "../harness/exchange.ts";
import { framesIn, frameTypes, h2Opening, headersFrame } from "../harness/h2-frames.ts";
import { h2cRequest, h2cSession } from "../harness/h2c-client.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { rawSocket } from "../harness/raw-socket.ts";

const keyrun = closedAtEnd(await startKeyrun());

const endsStreamAndHeaders = 5;

test.each([
  ["an unknown method", "/keyrun.v1.RunService/Walk"],
  ["an unknown service", "/nobody.v1.Service/Method"],
  ["a call without a key", "/keyrun.v1.RunService/RunApp"],
  ["a call without the service token", "/keyrun.v1.KeyService/ListKeys"],
])("the refusal of %s over gRPC is one HEADERS frame that ends the stream, without DATA", async (_, path) => {
  const client = rawSocket({ port: Number(new URL(keyrun.internalUrl).port) });
  const head = [
    [":method", "POST"],
    [":scheme", "http"],
    [":path", path],
    [":authority", "a"],
    ["content-type", "application/grpc"],
    ["te", "trailers"],
  ] as const;
  client.send(Buffer.concat([h2Opening, headersFrame(1, head)]));
  const onStream = (heard: string) => framesIn(heard).filter(({ stream }) => stream === 1);
  const heard = await client.until((text) => onStream(text).some(({ flags }) => (flags & 1) === 1));
  expect(onStream(heard)).toMatchObject([{ type: frameTypes.headers, flags: endsStreamAndHeaders }]);
  client.socket.destroy();
});

test.each(["application/grpc", "application/grpc-web"])(
  "the head of the refusal of a %s call has the status and the words",
  async (type) => {
    const session = await h2cSession(keyrun.internalUrl);
    const { headers, body } = await h2cRequest(session, {
      ":method": "POST",
      ":path": "/keyrun.v1.RunService/Walk",
      "content-type": type,
      "x-request-id": "mine",
    });
    expect(body).toBe("");
    expect(headers).toMatchObject({
      "content-type": type,
      "x-request-id": "mine",
      "grpc-status": "12",
      "grpc-message": "This method is not served here.",
    });
    session.close();
  },
);

test.each([
  ["a unary call", "RunApp", ""],
  ["a unary call with a query", "RunApp", "?q=1"],
  ["a stream", "StreamApp", ""],
])("%s that is refused over gRPC has the request's id beside its status", async (_, method, query) => {
  const answer = await http2.exchange(keyrun.internalUrl, {
    method: "POST",
    path: `/keyrun.v1.RunService/${method}${query}`,
    headers: { "content-type": "application/grpc", te: "trailers", "x-request-id": "mine" },
    body: Buffer.alloc(5),
  });
  const last = "grpc-status" in answer.headers ? answer.headers : answer.trailers;
  expect(last).toMatchObject({ "grpc-status": "16", "x-request-id": "mine" });
});
