import { gzipSync } from "node:zlib";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { anyUnpack } from "@bufbuild/protobuf/wkt";
import { beforeEach, describe, expect, test } from "vitest";
import { ErrorInfoSchema } from "#gen/google/rpc/error_details_pb.ts";
import { StatusSchema } from "#gen/google/rpc/status_pb.ts";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { RunAppRequestSchema, RunAppResponseSchema, RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import { type Reason, rowOf } from "#src/refusal/reasons.ts";
import { frameOf, prefixBytes } from "#src/rpc/grpc/frame.ts";
import { closedAtEnd } from "../../harness/closed-at-end.ts";
import { h2cSession } from "../../harness/h2c-client.ts";
import { startKeyrun } from "../../harness/keyrun.ts";
import { openGrpcCall, type RawGrpcAnswer } from "../../harness/raw-grpc.ts";
import { startScriptedApp } from "../../harness/scripted-app.ts";

const bytesMax = 4096;
const path = "/keyrun.v1.RunService/RunApp";
let authorization: string;

const app = closedAtEnd(await startScriptedApp());
const keyrun = closedAtEnd(await startKeyrun({ settings: { KEYRUN_BODY_BYTES_MAX: String(bytesMax) } }));
await keyrun.apps.createApp({ app: { id: "scripted", backend: app.backend } });
const session = closedAtEnd(await h2cSession(keyrun.publicUrl));
beforeEach(async () => {
  authorization = `Bearer ${(await keyrun.newKey(await keyrun.newTeam())).value}`;
});

function frame(text: string, appId = "echo"): Uint8Array {
  return frameOf(toBinary(RunAppRequestSchema, create(RunAppRequestSchema, { appId, text })));
}

function call(headers: Record<string, string> = {}) {
  return openGrpcCall(session, path, { authorization, ...headers });
}

function send(body: Uint8Array, headers: Record<string, string> = {}): Promise<RawGrpcAnswer> {
  const { stream, answer } = call(headers);
  stream.end(body);
  return answer;
}

/** Returns the status, and the reasons in its details. */
function outcomeOf({ trailers }: RawGrpcAnswer) {
  const details = Buffer.from(String(trailers["grpc-status-details-bin"] ?? ""), "base64");
  const infos = fromBinary(StatusSchema, details).details.flatMap(
    (detail) => anyUnpack(detail, ErrorInfoSchema) ?? [],
  );
  return { status: trailers["grpc-status"], reasons: infos.map(({ reason }) => reason) };
}

/** Errors that every framework of RPCs has are told by their code alone. */
const refusedAs = (status: string, reason: Reason) => ({
  status,
  reasons: rowOf(reason).withoutRpcDetails ? [] : [reason],
});

test("the answer is a head, one message and a status, however the request's message was split", async () => {
  const { stream, answer } = call({ "x-request-id": "mine" });
  for (const byte of frame("hello")) {
    stream.write(Uint8Array.of(byte));
    await new Promise(setImmediate);
  }
  stream.end();
  const { headers, trailers, body } = await answer;
  expect(headers).toMatchObject({
    ":status": 200,
    "content-type": "application/grpc+proto",
    "x-request-id": "mine",
    "ratelimit-remaining": "59",
    "ratelimit-policy": '"team";q=60;w=60',
  });
  expect(headers["content-length"]).toBeUndefined();
  expect(trailers).toEqual({ "grpc-status": "0" });
  expect(body.readUInt32BE(1)).toBe(body.length - prefixBytes);
  expect(fromBinary(RunAppResponseSchema, body.subarray(prefixBytes))).toMatchObject({
    appId: "echo",
    text: "hello",
  });
});

describe("a body that is not one message is refused, counted, and charged to the rate limit", () => {
  const compressed = Uint8Array.from(frame("x"), (byte, at) => (at === 0 ? 1 : byte));
  test.each<[string, Uint8Array, string, Reason]>([
    ["none", new Uint8Array(0), "12", "UNIMPLEMENTED"],
    ["two messages", Buffer.concat([frame("a"), frame("b")]), "12", "UNIMPLEMENTED"],
    ["a part of one", frame("hello").subarray(0, 9), "3", "INVALID_ARGUMENT"],
    ["one marked as compressed", compressed, "13", "MISSING_GRPC_ENCODING"],
    ["one that is no RunAppRequest", frameOf(Buffer.from("[")), "3", "INVALID_ARGUMENT"],
    ["one over the bound", frame("x".repeat(bytesMax)), "8", "REQUEST_TOO_LARGE"],
  ])("%s", async (_, body, status, reason) => {
    const series = `keyrun_requests_total{entry="grpc",outcome="${reason}"`;
    const before = await keyrun.metric(series);
    const answer = await send(body);
    expect(outcomeOf(answer)).toEqual(refusedAs(status, reason));
    expect(answer.trailers).toMatchObject({ "ratelimit-remaining": "59" });
    expect(answer.body.length).toBe(0);
    expect(await keyrun.metric(series)).toBe(before + 1);
  });

  test("a message as large as the bound is accepted", async () => {
    const room = bytesMax - (frame("").length - prefixBytes) - 2;
    expect((await send(frame("x".repeat(room)))).trailers).toEqual({ "grpc-status": "0" });
  });
});

test("a caller without the right to call is refused before it sends its message", async () => {
  const { stream, answer } = call({ authorization: "Bearer nobody" });
  stream.write(frame("x").subarray(0, 3));
  // Otherwise the stream stays half open, for as long as the caller may still upload.
  stream.once("end", () => stream.end());
  expect(outcomeOf(await answer)).toEqual(refusedAs("16", "INVALID_API_KEY"));
});

test("a compressed message, or one in JSON, is answered by Connect's handler", async () => {
  const message = gzipSync(frame("squeezed").subarray(prefixBytes));
  const body = Buffer.from(frameOf(message));
  body[0] = 1;
  expect((await send(body, { "grpc-encoding": "gzip" })).trailers).toMatchObject({ "grpc-status": "0" });
  const json = frameOf(Buffer.from('{"appId":"echo","text":"json"}'));
  const answer = await send(json, { "content-type": "application/grpc+json" });
  expect(answer.trailers).toMatchObject({ "grpc-status": "0" });
  expect(answer.body.subarray(prefixBytes).toString()).toContain('"text":"json"');
});

test("a request that is not a POST over HTTP/2 is left to Connect's handler, and a PUT runs nothing", async () => {
  const runs = 'keyrun_run_seconds_count{result="succeeded"}';
  const before = await keyrun.metric(runs);
  const over1 = await fetch(`${keyrun.publicUrl}${path}`, {
    method: "POST",
    headers: { authorization, "content-type": "application/grpc" },
    body: frame("x"),
  });
  expect(over1.status).not.toBe(500);
  const { stream, answer } = call({ ":method": "PUT" });
  stream.end(frame("x"));
  expect((await answer).headers[":status"]).toBe(405);
  expect(await keyrun.metric(runs)).toBe(
    before + (over1.headers.get("content-type")?.includes("grpc") ? 1 : 0),
  );
});

describe("a deadline", () => {
  test("ends a call whose message does not arrive, and a message that arrives later is not run", async () => {
    const runs = 'keyrun_run_seconds_count{result="succeeded"}';
    const before = await keyrun.metric(runs);
    const { stream, answer } = call({ "grpc-timeout": "100m" });
    stream.write(frame("late").subarray(0, 8));
    // The caller may still upload after the answer.
    const head = await new Promise<Record<string, unknown>>((resolve) => stream.once("response", resolve));
    expect(head).toMatchObject({ "grpc-status": "4" });
    expect(head["x-should-retry"]).toBeUndefined();
    stream.end(frame("late").subarray(8));
    await answer;
    expect(await keyrun.metric(runs)).toBe(before);
  });

  test("that can't be read is refused", async () => {
    expect(outcomeOf(await send(frame("x"), { "grpc-timeout": "soon" }))).toEqual(
      refusedAs("3", "INVALID_ARGUMENT"),
    );
  });
});

test("a caller that disconnects ends its run", async () => {
  const { stream, answer } = call();
  const gone = answer.catch(() => "gone");
  stream.end(frame("wait", "scripted"));
  await app.waits(1);
  stream.close(8);
  await gone;
  await expect.poll(() => keyrun.metric("keyrun_runs_running")).toBe(0);
});

describe("this handler and Connect's handler refuse a call alike", () => {
  const methods = [RunService, KeyService, TeamService, AppService].flatMap((service) => service.methods);
  const unary = methods.filter(({ methodKind }) => methodKind === "unary");
  const cases = unary.flatMap((method) =>
    (["publicUrl", "internalUrl"] as const).map(
      (at) => [method.toString(), at, `/${method.parent.typeName}/${method.name}`] as const,
    ),
  );

  /**
   * Makes the call twice, through this handler and through Connect's, and returns both outcomes. A
   * call that names a compression goes to Connect's handler, even if it uses none.
   */
  const byBoth = (
    other: typeof session,
    method: string,
    { token, body }: { token: string; body: Uint8Array },
  ) =>
    Promise.all(
      [{}, { "grpc-encoding": "gzip" }].map(async (encoding) => {
        const { stream, answer } = openGrpcCall(other, method, {
          ...(token && { authorization: token }),
          ...encoding,
        });
        stream.end(body);
        return outcomeOf(await answer);
      }),
    );

  test.each(cases)("%s on %s", async (_, at, method) => {
    const other = await h2cSession(keyrun[at]);
    const tokens = ["", "Bearer nobody", "Basic x", authorization, `Bearer ${keyrun.serviceToken}`];
    for (const token of tokens) {
      const [ours, connects] = await byBoth(other, method, { token, body: frameOf(new Uint8Array(0)) });
      expect(ours).toEqual(connects);
    }
    other.close();
  });

  test.each([
    ["no message", new Uint8Array(0)],
    ["bytes that are none", frameOf(Buffer.from("["))],
    ["two messages", Buffer.concat([frame("a"), frame("b")])],
    ["a part of one", frame("hello").subarray(0, 9)],
    ["one over the bound", frame("x".repeat(bytesMax))],
    ["a good one", frame("x")],
  ])("a call whose body is %s", async (_, body) => {
    const [ours, connects] = await byBoth(session, path, { token: authorization, body });
    expect(ours).toEqual(connects);
  });
});
