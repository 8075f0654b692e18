import { create, type JsonValue, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { Server as GrpcServer, ServerCredentials } from "@grpc/grpc-js";
import { describe, expect, test } from "vitest";
import {
  AppBackendService,
  RunResponseSchema,
  StreamRunResponseSchema,
} from "#gen/keyrun/v1/app_backend_service_pb.ts";
import type { Refusal } from "#src/refusal/refusal.ts";
import { appOn, bodyOf, causeOf, openAppRunner, runOf, serveHttp } from "../harness/app-backends.ts";
import { readText } from "../harness/streamed-apps.ts";

const MiB = 1024 * 1024;

/** An app that answers each run with this body. */
const answering = (type: string, body: string) =>
  serveHttp((_, response) => response.setHeader("content-type", type).end(body));

const failureOf = (run: Promise<unknown>) =>
  run.then(
    () => "no failure",
    (refusal: Refusal) => causeOf(refusal),
  );

test("an HTTP app gets the fields that the caller sent", async () => {
  const sent: unknown[] = [];
  await using server = await serveHttp(async (request, response) => {
    sent.push(Object.keys(JSON.parse(await bodyOf(request))).slice(4));
    response.end('{"output":null}');
  });
  await using runner = openAppRunner();
  const app = appOn(server.backend);
  for (const input of [{ text: "a" }, { text: undefined, input: {} }, { text: "", input: { a: 1 } }]) {
    expect(await runner.outputs.run(runOf(app, input))).toEqual({ output: null });
  }
  expect(sent).toEqual([["text"], ["input"], ["text", "input"]]);
});

describe("an HTTP app gives JSON", () => {
  test.each([
    ["application/json", '{"text":"a","output":[1]}'],
    ["application/x-ndjson", '{"text":"a"}\n{"output":[1]}\n\n'],
    ["text/event-stream", 'data: {"text":"a"}\n\nevent: output\ndata: [1]\n\n: end\n\n'],
    ["text/event-stream", 'data: {"text":"a"}\n\ndata: {"output":[1]}\n\n'],
  ])("as %s %j, whole and streamed", async (type, body) => {
    await using server = await answering(type, body);
    await using runner = openAppRunner();
    const run = runOf(appOn(server.backend));
    expect(await runner.outputs.run(run)).toEqual({ text: "a", output: [1] });
    expect(await readText(runner.outputs.stream(run))).toEqual({ text: "a", output: [1] });
  });

  test.each([
    ["application/x-ndjson", '{"output":1}\n{"text":"a"}\n'],
    ["application/x-ndjson", '{"output":null}\n{"output":null}\n'],
    ["text/event-stream", 'event: output\ndata: 1\n\ndata: {"text":"a"}\n\n'],
  ])("and nothing after it: %s %j", async (type, body) => {
    await using server = await answering(type, body);
    await using runner = openAppRunner();
    const why = "The stream goes on after its `output`.";
    expect(await failureOf(runner.outputs.run(runOf(appOn(server.backend))))).toBe(why);
    const { refusal } = await readText(runner.outputs.stream(runOf(appOn(server.backend))));
    expect(causeOf(refusal as Refusal)).toBe(why);
  });

  test.each([
    ['{"output":9007199254740993}', "The app's `output` has a number that a double can't hold."],
    ['{"output":NaN}', "The answer is not JSON"],
    ['{"output":"\\udc00"}', "The app's `output` is not Unicode"],
    [`{"output":[${"0,".repeat(19_997)}0]}`, "no failure"],
    [`{"output":[${"0,".repeat(19_998)}0]}`, "A message in JSON has more than 20000 values."],
    ["{}", "The answer is not a JSON object with a string `text` or an `output`: it has neither."],
  ])("that must be fit to be passed on (%#)", async (body, why) => {
    await using server = await answering("application/json", body);
    await using runner = openAppRunner({ outputBytesMax: MiB });
    expect(await failureOf(runner.outputs.run(runOf(appOn(server.backend))))).toContain(why);
  });

  test("of 1 MiB, after 16 MiB of text", async () => {
    const text = `data: ${JSON.stringify({ text: "x".repeat(MiB - 100) })}\n\n`;
    const output = "y".repeat(MiB - 100);
    const body = `${text.repeat(16)}event: output\ndata: ${JSON.stringify(output)}\n\n`;
    await using server = await answering("text/event-stream", body);
    await using runner = openAppRunner({ outputBytesMax: MiB });
    const read = await readText(runner.outputs.stream(runOf(appOn(server.backend))));
    expect(read).toMatchObject({ output });
    expect(read.text.length).toBe(16 * (MiB - 100));
  });
});

/** A gRPC app with these answers. */
async function grpcApp(answers: readonly Buffer[], name: "run" | "streamRun") {
  const server = new GrpcServer();
  const method = {
    path: `/${AppBackendService.typeName}/${AppBackendService.method[name].name}`,
    requestStream: false,
    responseStream: true,
    requestSerialize: (bytes: Buffer) => bytes,
    requestDeserialize: (bytes: Buffer) => bytes,
    responseSerialize: (bytes: Buffer) => bytes,
    responseDeserialize: (bytes: Buffer) => bytes,
  };
  server.addService(
    { [name]: method },
    {
      [name](call: { write(bytes: Buffer): void; end(): void }) {
        for (const answer of answers) call.write(answer);
        call.end();
      },
    },
  );
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  return {
    app: appOn({ kind: "grpc", target: `127.0.0.1:${port}`, tls: false }),
    [Symbol.asyncDispose]: async () => server.forceShutdown(),
  };
}

const whole = (answer: MessageInitShape<typeof RunResponseSchema>) =>
  Buffer.from(toBinary(RunResponseSchema, create(RunResponseSchema, answer)));
const part = (answer: MessageInitShape<typeof StreamRunResponseSchema>) =>
  Buffer.from(toBinary(StreamRunResponseSchema, create(StreamRunResponseSchema, answer)));
const number = (value: number) => ({ kind: { case: "numberValue", value } }) as const;
const nothing = { kind: { case: "nullValue", value: 0 } } as const;

describe("a gRPC app gives JSON", () => {
  test.each([
    ["run", [whole({ output: number(2 ** 60) })], { output: 2 ** 60 }],
    ["run", [whole({ text: "", output: nothing })], { text: "", output: null }],
    ["streamRun", [part({ text: "a" }), part({ text: "b", output: nothing })], { text: "ab", output: null }],
  ] as const)(
    "by %s, whole and streamed",
    async (name, answers, output: { text?: string; output: JsonValue }) => {
      await using server = await grpcApp(answers, name);
      await using runner = openAppRunner();
      expect(await runner.outputs.run(runOf(server.app))).toEqual(output);
      expect(await readText(runner.outputs.stream(runOf(server.app)))).toEqual({ text: "", ...output });
    },
  );

  const noJson = "The app's `output` is no JSON.";
  test.each([
    ["neither", "run", [whole({})], "Run answered neither `text` nor `output`."],
    ["NaN", "run", [whole({ output: number(Number.NaN) })], noJson],
    ["a value without a kind", "streamRun", [part({ output: create(ValueSchema) })], noJson],
    [
      "text after it",
      "streamRun",
      [part({ output: nothing }), part({ text: "a" })],
      "The stream goes on after its `output`.",
    ],
    [
      "it twice",
      "streamRun",
      [part({ output: nothing }), part({ output: nothing })],
      "The stream goes on after its `output`.",
    ],
  ] as const)("and fails with %s", async (_, name, answers, why) => {
    await using server = await grpcApp(answers, name);
    await using runner = openAppRunner();
    expect(await failureOf(runner.outputs.run(runOf(server.app)))).toBe(why);
    const { refusal } = await readText(runner.outputs.stream(runOf(server.app)));
    expect(causeOf(refusal as Refusal)).toBe(why);
  });
});
