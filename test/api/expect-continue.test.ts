import { once } from "node:events";
import { request } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { connect } from "node:net";
import { expect, test } from "vitest";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";

const keyrun = closedAtEnd(await startKeyrun());

test("an RPC's caller that sends Expect: 100-continue gets 100 Continue, and then its answer", async () => {
  const call = request(`${keyrun.internalUrl}/keyrun.v1.KeyService/ListKeys`, {
    method: "POST",
    headers: {
      Authorization: `Bearer ${keyrun.serviceToken}`,
      "Content-Type": "application/json",
      "Connect-Protocol-Version": "1",
      Expect: "100-continue",
    },
  });
  call.flushHeaders();
  await once(call, "continue");
  call.end(JSON.stringify({ teamId: "demo" }));
  const [answer] = await once(call, "response");
  answer.resume();
  expect(answer.statusCode).toBe(200);
});

/** The status of a run with an `Expect` header whose body comes together with its head. */
async function statusOverHttp1(expectation: string, framing: string, body: string): Promise<string> {
  const socket = connect(Number(new URL(keyrun.publicUrl).port), "127.0.0.1");
  const { value } = await keyrun.newKey("demo");
  const head = `POST /api/apps/echo/run HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${value}\r\n`;
  socket.write(`${head}Expect: ${expectation}\r\nConnection: close\r\n${framing}\r\n\r\n${body}`);
  const answer = (await socket.setEncoding("latin1").toArray()).join("");
  return /^(?:HTTP\/1\.1 100 Continue\r\n\r\n)?HTTP\/1\.1 (\d+)/.exec(answer)?.[1] ?? answer;
}

test.each(["100-continue", "x"])(
  "Expect: %s with a body that comes at once is answered, over HTTP/1.1 and HTTP/2",
  async (expectation) => {
    const json = JSON.stringify({ text: "at once" });
    const chunked = `${json.length.toString(16)}\r\n${json}\r\n0\r\n\r\n`;
    expect(await statusOverHttp1(expectation, "Transfer-Encoding: chunked", chunked)).toBe("200");
    expect(await statusOverHttp1(expectation, `Content-Length: ${json.length}`, json)).toBe("200");

    const { value } = await keyrun.newKey("demo");
    const session = connectHttp2(keyrun.publicUrl);
    const stream = session.request({
      ":method": "POST",
      ":path": "/api/apps/echo/run",
      authorization: `Bearer ${value}`,
      expect: expectation,
    });
    stream.end(json);
    const [headers] = await once(stream, "response");
    expect(headers[":status"]).toBe(200);
    session.destroy();
  },
);
