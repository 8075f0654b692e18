import { once } from "node:events";
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type Http2ServerResponse,
} from "node:http2";
import { expect, onTestFinished, test } from "vitest";
import type { ListenerOptions } from "#src/server/listener.ts";
import { isHttp2Response, type NodeRequest } from "#src/server/node-http.ts";
import { h2cAnswer, h2cRequest, h2cSession } from "../../harness/h2c-client.ts";
import { rawSocket } from "../../harness/raw-socket.ts";
import { echoHandler, jsonAnswer, serveForTest as served } from "../../harness/served-handler.ts";

/** A handler that writes to Node's response itself. */
function handler(handle: (req: NodeRequest, res: Http2ServerResponse) => void): ListenerOptions["onRequest"] {
  return ({ req, res }) => {
    if (isHttp2Response(res)) handle(req, res);
  };
}

const checkIntervalMs = 25;
const shortStall = { checkIntervalMs, stalledWriteMsMax: 200, writeBytesPerSecondMin: 2 ** 40 };
const shortBody = { checkIntervalMs, headersMsMax: 200, requestMsMax: 200 };

/** Opens a session whose streams read nothing until `session.settings` opens their window. */
async function shutSession(url: string): Promise<ClientHttp2Session> {
  const session = connect(url, { settings: { initialWindowSize: 0 } });
  session.on("error", () => undefined);
  await once(session, "remoteSettings");
  return session;
}

/** Resolves with the stream's code once it is closed, however it ended. */
async function over(stream: ClientHttp2Stream): Promise<number | undefined> {
  stream.on("error", () => undefined).resume();
  if (!stream.closed) await once(stream, "close");
  return stream.rstCode;
}

test("an answer that a closed window holds up is given up, whichever handler wrote it", async () => {
  const onRequest = handler((_, res) => res.end("held"));
  const plain = await served(echoHandler, { limits: shortStall, onRequest });
  const unended = await served(echoHandler, {
    limits: shortStall,
    onRequest: handler((_, res) => res.write("held")),
  });
  const edge = await served(() => jsonAnswer(200, "held"), { limits: shortStall });
  for (const { url, requests } of [plain, unended, edge]) {
    const session = await shutSession(url);
    expect(await over(session.request({ ":path": "/" }))).toBe(constants.NGHTTP2_CANCEL);
    expect(requests.running()).toBe(0);
    session.destroy();
  }
});

test("a refused upload whose caller does not read the answer is given up, whether it ended or was cut off", async () => {
  const limits = { ...shortStall, drainedBodyMsMax: 50 };
  const { url, requests } = await served(() => jsonAnswer(401, "no"), { limits });
  const session = await shutSession(url);
  for (const ends of [true, false]) {
    const stream = session.request({ ":method": "POST", ":path": "/" });
    stream.on("error", () => undefined).resume();
    stream.write("1");
    if (ends) stream.end();
    await expect.poll(() => requests.running()).toBe(1);
    await expect.poll(() => requests.running()).toBe(0);
  }
  session.destroy();
});

test("a stream on which no bytes wait may be silent without limit", async () => {
  let finish: () => void = () => undefined;
  const onRequest = handler((req, res) => {
    if (req.url !== "/silent") return void res.end("held");
    res.writeHead(200);
    res.write("begun ");
    finish = () => res.end("done");
  });
  const { url } = await served(echoHandler, { limits: shortStall, onRequest });
  const session = await h2cSession(url);
  const silent = h2cRequest(session, { ":path": "/silent" });
  const shut = await shutSession(url);
  for (let round = 0; round < 3; round += 1) await over(shut.request({ ":path": "/" }));
  finish();
  expect((await silent).body).toBe("begun done");
  session.close();
  shut.destroy();
});

test("a large answer gets the time that its size needs", async () => {
  const onRequest = handler((req, res) => res.end("x".repeat(req.url === "/large" ? 100_000 : 1)));
  const limits = { ...shortStall, writeBytesPerSecondMin: 1_000 };
  const { url, requests } = await served(echoHandler, { limits, onRequest });
  const shut = await shutSession(url);
  const large = h2cAnswer(shut.request({ ":path": "/large" }));
  await expect.poll(() => requests.running()).toBe(1);
  for (let round = 0; round < 3; round += 1) await over(shut.request({ ":path": "/" }));
  shut.settings({ initialWindowSize: 200_000 });
  expect((await large).body).toHaveLength(100_000);
  shut.destroy();
});

test("over HTTP/1.1 an answer that nobody reads is given up, although its caller goes on sending", async () => {
  const body = Buffer.alloc(64 * 1024 * 1024);
  const { port, requests } = await served(() => ({ status: 200, headers: [], body }), { limits: shortStall });
  const client = rawSocket({ port });
  client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  client.socket.pause();
  // A server passes over empty lines before a request (RFC 9112, section 2.2).
  const sending = setInterval(() => client.send("\r\n"), checkIntervalMs);
  onTestFinished(() => clearInterval(sending));
  await expect.poll(() => requests.running()).toBe(1);
  await expect.poll(() => requests.running()).toBe(0);
});

test("over HTTP/2 a body that no handler reads has a time limit too, and a conversation has a longer one", async () => {
  const onRequest = handler((req, res) => {
    req.on("data", (chunk) => {
      if (!res.writableEnded) res.write(chunk);
    });
    if (req.url === "/refused") res.end("refused");
  });
  const isConversation: ListenerOptions["isConversation"] = (req) => req.url !== "/unary";
  const { url } = await served(echoHandler, { limits: shortBody, onRequest, isConversation });
  const session = await h2cSession(url);
  const post = (path: string) => {
    const stream = session.request({ ":method": "POST", ":path": path });
    stream.write("1");
    return stream;
  };
  const talk = post("/talk");
  await once(talk, "data");
  expect(await over(post("/unary"))).toBe(constants.NGHTTP2_CANCEL);
  // Its answer has ended, so it is no longer a conversation.
  expect(await over(post("/refused"))).toBe(constants.NGHTTP2_CANCEL);
  talk.write("2");
  expect(String((await once(talk, "data"))[0])).toBe("2");
  session.destroy();

  const limits = { ...shortBody, conversationMsMax: 300 };
  const brief = await served(echoHandler, { limits, onRequest, isConversation });
  const other = await h2cSession(brief.url);
  const cut = other.request({ ":method": "POST", ":path": "/talk" });
  cut.write("1");
  expect(await over(cut)).toBe(constants.NGHTTP2_CANCEL);
  other.destroy();
});

test("a request that is complete and waits for its answer is not ended as a slow body", async () => {
  const finish: (() => void)[] = [];
  const onRequest = handler((req, res) => {
    // The body is not read, like in a handler that first looks something up.
    if (req.url === "/late") finish.push(() => res.end("late"));
  });
  const { url } = await served(echoHandler, { limits: shortBody, onRequest });
  const session = await h2cSession(url);
  const late = h2cRequest(session, { ":method": "POST", ":path": "/late" }, "whole");
  const slow = session.request({ ":method": "POST", ":path": "/" });
  slow.write("1");
  await over(slow);
  for (const one of finish) one();
  expect((await late).body).toBe("late");
  session.destroy();
});
