import { once } from "node:events";
import { Agent, request as httpRequest } from "node:http";
import { buffer } from "node:stream/consumers";
import { expect, onTestFinished, test, vi } from "vitest";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { type Ask, http2, type WireAnswer } from "../harness/exchange.ts";
import { h2cSession } from "../harness/h2c-client.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { type Protocol, rpcProtocols } from "../harness/protocols.ts";
import { reasonOfAnswer } from "../harness/reason-of-answer.ts";
import { startScriptedApp } from "../harness/scripted-app.ts";

let key = "";

const app = closedAtEnd(await startScriptedApp());
const keyrun = closedAtEnd(await startKeyrun());
await keyrun.apps.createApp({ app: { id: "scripted", backend: app.backend } });
key = (await keyrun.newKey(await keyrun.newTeam(Plan.ENTERPRISE))).value;

const runs = 'keyrun_run_seconds_count{result="succeeded"}';

function askToRun(protocol: Protocol, timeout: string, json = { appId: "echo", text: "x" }) {
  const name = protocol.kind === "connect" ? "connect-timeout-ms" : "grpc-timeout";
  const headers = { authorization: `Bearer ${key}`, [name]: timeout };
  return protocol.ask(RunService.method.runApp, { json }, { headers });
}

const tooShort = rpcProtocols.flatMap((protocol) =>
  (protocol.kind === "connect" ? ["0"] : ["0S", "1n", "999u"]).map(
    (timeout) => [protocol.name, timeout, protocol] as const,
  ),
);

test.each(tooShort)(
  "over %s a timeout of %s is DEADLINE_EXCEEDED, and no app runs",
  async (...[, timeout, protocol]) => {
    const before = await keyrun.metric(runs);
    const answer = await protocol.http.exchange(keyrun.publicUrl, askToRun(protocol, timeout));
    expect(reasonOfAnswer(answer)).toBe("DEADLINE_EXCEEDED");
    // It may be repeated, since nothing was done.
    expect({ ...answer.headers, ...answer.trailers }).not.toHaveProperty("x-should-retry");
    expect(await keyrun.metric(runs)).toBe(before);
  },
);

const longest = rpcProtocols.flatMap((protocol) =>
  (protocol.kind === "connect" ? ["9999999999"] : ["99999999H", "99999999S"]).map(
    (timeout) => [protocol.name, timeout, protocol] as const,
  ),
);

test.each(longest)(
  "over %s a timeout of %s is longer than the time that an app takes",
  async (...[, timeout, protocol]) => {
    const asked = askToRun(protocol, timeout, { appId: "scripted", text: "wait" });
    const answer = protocol.http.exchange(keyrun.publicUrl, asked);
    await app.waits(1);
    // A timer of more milliseconds than Node's longest is one of 1 ms. They fire in their order.
    await new Promise((resolve) => setTimeout(resolve, 1));
    app.release();
    expect(reasonOfAnswer(await answer)).toBeUndefined();
  },
);

test.each(rpcProtocols.map((protocol) => [protocol.name, protocol] as const))(
  "over %s a deadline ends a run at its time, and the answer says that repeating may do the work twice",
  async (...[, protocol]) => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    // What of it passes on the way to its timer is real time: less than nine tenths.
    const timeout = protocol.kind === "connect" ? "100000" : "100S";
    const asked = askToRun(protocol, timeout, { appId: "scripted", text: "wait" });
    let isAnswered = false;
    const answer = protocol.http.exchange(keyrun.publicUrl, asked).finally(() => {
      isAnswered = true;
    });
    await app.waits(1);
    await vi.advanceTimersByTimeAsync(10_000);
    expect([isAnswered, app.waiting()]).toEqual([false, 1]);
    await vi.advanceTimersByTimeAsync(90_000);
    expect(reasonOfAnswer(await answer)).toBe("DEADLINE_EXCEEDED");
    const { headers, trailers, body } = await answer;
    // gRPC-Web has its trailers in the body.
    const told = Object.entries({ ...headers, ...trailers }).map((pair) => pair.join(": "));
    expect([...told, body.toString("latin1")].join("\n")).toMatch(/x-should-retry: ?false/);
    await expect.poll(app.waiting).toBe(0);
  },
);

const methods = [RunService.method.runApp, KeyService.method.watchKeys];
const uploads = methods.flatMap((method) =>
  rpcProtocols.map((protocol) => [method.name, protocol.name, method, protocol] as const),
);

test.each(uploads)(
  "the deadline of %s over %s is kept while its message is still on its way",
  async (...[, , method, protocol]) => {
    const token = method === RunService.method.runApp ? key : keyrun.serviceToken;
    const headers = { authorization: `Bearer ${token}` };
    const ask = protocol.ask(method, { json: {} }, { timeoutMs: 20, headers });
    const answer = await (protocol.http === http2 ? stallHttp2 : stallHttp1)(ask);
    expect(reasonOfAnswer(answer)).toBe("DEADLINE_EXCEEDED");
    expect({ ...answer.headers, ...answer.trailers }).not.toHaveProperty("x-should-retry");
  },
);

/** Sends the head and one byte of the body, reads the answer to its end, and leaves. */
async function stallHttp1({ path, headers }: Ask): Promise<WireAnswer> {
  const agent = new Agent({ keepAlive: true });
  const sent = { method: "POST", path, agent, headers: { ...headers, "content-length": "100" } };
  const request = httpRequest(keyrun.internalUrl, sent);
  request.on("error", () => undefined).write("{");
  const [response] = await once(request, "response");
  const body = await buffer(response);
  agent.destroy();
  return { status: response.statusCode, headers: response.headers, trailers: response.trailers, body };
}

async function stallHttp2({ path, headers }: Ask): Promise<WireAnswer> {
  const session = await h2cSession(keyrun.internalUrl);
  const stream = session.request({ ":method": "POST", ":path": path, ...headers });
  stream.write("{");
  let trailers = {};
  stream.once("trailers", (received) => {
    trailers = { ...received };
  });
  const [received] = await once(stream, "response");
  const body = await buffer(stream);
  session.destroy();
  return { status: Number(received[":status"]), headers: { ...received }, trailers, body };
}
