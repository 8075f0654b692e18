// A thread that revokes keys over sockets of its own, and uses each again in the moment in which
// the OK arrives. It does nothing else, so that not even a millisecond passes in between.
import { once } from "node:events";
import { connect } from "node:http2";
import { parentPort, workerData } from "node:worker_threads";
import { rawSocket } from "./raw-socket.ts";
import type { RevocationOrder, RevokerAnswer, RevokerData } from "./revocations.ts";

const { publicUrl, internalUrl, serviceToken } = workerData as RevokerData;
const http2 = connect(publicUrl);
await once(http2, "remoteSettings");
const run = "/keyrun.v1.RunService/RunApp";
/** `RunAppRequest` for the app `echo` and the text `x`, and its envelope. */
const message = Buffer.from("\x0a\x04echo\x12\x01x", "latin1");
const enveloped = Buffer.concat([Buffer.of(0, 0, 0, 0, message.length), message]);

/** A use that is ready to be sent: `send` writes it at once. Each resolves with what came back. */
interface ReadyUse {
  send(): void;
  readonly answer: Promise<string>;
}

parentPort?.on("message", async ({ teamId, keyId, value }: RevocationOrder) => {
  const uses = await Promise.all([
    overHttp1(publicUrl, "/api/apps/echo/run", { token: value, body: '{"text":"x"}' }),
    overHttp1(publicUrl, run, { token: value, body: '{"appId":"echo","text":"x"}' }),
    overHttp1(publicUrl, run, { token: value, body: enveloped, type: "application/grpc-web+proto" }),
    overHttp2("/api/apps/echo/run", {
      token: value,
      body: Buffer.from('{"text":"x"}'),
      type: "application/json",
    }),
    overHttp2(run, { token: value, body: message, type: "application/proto" }),
    overHttp2(run, { token: value, body: enveloped, type: "application/grpc" }),
    overHttp1(internalUrl, "/keyrun.v1.KeyService/VerifyKey", {
      token: serviceToken,
      body: JSON.stringify({ value }),
    }),
  ]);
  const revocation = await overHttp1(internalUrl, "/keyrun.v1.KeyService/RevokeKey", {
    token: serviceToken,
    body: JSON.stringify({ teamId, keyId }),
    onAnswer: () => {
      for (const use of uses) use.send();
    },
  });
  revocation.send();
  const ok = await revocation.answer;
  if (!ok.startsWith("HTTP/1.1 200 ")) throw new Error(`The revocation was refused: ${ok}`);
  tell({ keyId, kind: "revoked" });
  const answers = await Promise.all(uses.map(({ answer }) => answer));
  tell({ keyId, kind: "used", accepted: answers.filter((text) => !/revoked/i.test(text)) });
});

function tell(answer: RevokerAnswer): void {
  parentPort?.postMessage(answer);
}

interface Sent {
  readonly token: string;
  readonly body: string | Buffer;
  readonly type?: string;
}

/** On a new connection, which is open when this resolves. */
async function overHttp1(
  url: string,
  path: string,
  { token, body, type = "application/json", onAnswer }: Sent & { onAnswer?: () => void },
): Promise<ReadyUse> {
  const { socket, send, until } = rawSocket({ port: Number(new URL(url).port) });
  await once(socket, "connect");
  if (onAnswer) socket.once("data", onAnswer);
  const head =
    `POST ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\nContent-Type: ${type}\r\n` +
    `Connect-Protocol-Version: 1\r\nContent-Length: ${body.length}\r\n\r\n`;
  const bytes = Buffer.concat([Buffer.from(head), Buffer.from(body)]);
  const answer = until((heard) => heard.includes("\r\n\r\n")).finally(() => socket.destroy());
  return { send: () => send(bytes), answer };
}

function overHttp2(path: string, { token, body, type }: Required<Sent>): ReadyUse {
  const answered = Promise.withResolvers<string>();
  return {
    answer: answered.promise,
    send() {
      const stream = http2.request({
        ":method": "POST",
        ":path": path,
        authorization: `Bearer ${token}`,
        "content-type": type,
        "connect-protocol-version": "1",
        te: "trailers",
      });
      let heard = "";
      const keep = (some: object) => {
        heard += JSON.stringify(some);
      };
      stream.on("response", keep).on("trailers", keep);
      stream.on("data", (chunk: Buffer) => {
        heard += chunk.toString("latin1");
      });
      stream.on("error", answered.reject).on("close", () => answered.resolve(heard));
      stream.end(body);
    },
  };
}
