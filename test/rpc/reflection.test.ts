import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { create, createFileRegistry, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  type FileDescriptorProto,
  FileDescriptorProtoSchema,
  FileDescriptorSetSchema,
} from "@bufbuild/protobuf/wkt";
import { Code, createClient } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { Health } from "#gen/grpc/health/v1/health_pb.ts";
import {
  ServerReflection,
  ServerReflectionRequestSchema,
  type ServerReflectionResponse,
} from "#gen/grpc/reflection/v1/reflection_pb.ts";
import { ServerReflection as ServerReflectionV1Alpha } from "#gen/grpc/reflection/v1alpha/reflection_pb.ts";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { frameOf } from "#src/rpc/grpc/frame.ts";
import { createReflection } from "#src/rpc/reflection.ts";
import { served } from "#src/rpc/served.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { countTurns } from "../harness/counted-turns.ts";
import { h2cSession } from "../harness/h2c-client.ts";
import { openGrpcCall } from "../harness/raw-grpc.ts";
import { rpcProtocols, serveConnectH2c } from "./connect-h2c.ts";

type Asked = NonNullable<MessageInitShape<typeof ServerReflectionRequestSchema>["messageRequest"]>;

const versions = { v1: ServerReflection, v1alpha: ServerReflectionV1Alpha };
const services = [RunService, KeyService, AppService, Health, ServerReflection, ServerReflectionV1Alpha];
const annotations = "google/api/annotations.proto";
const descriptor = "google/protobuf/descriptor.proto";
const errorDetails = "google/rpc/error_details.proto";
const runFiles = [
  ...["google/protobuf/duration.proto", "google/protobuf/struct.proto"],
  ...["keyrun/v1/run.proto", "google/protobuf/timestamp.proto"],
];
const runServiceFiles = [
  ...["keyrun/v1/run_service.proto", annotations, "google/api/http.proto", descriptor],
  ...runFiles,
];

const reflection = createReflection(services);
const server = closedAtEnd(
  await serveConnectH2c([
    served(ServerReflection, reflection.v1),
    served(ServerReflectionV1Alpha, reflection.v1alpha),
    served(RunService, {
      runApp: ({ appId, text }) => ({ runId: "run_1", appId, text: text ?? "" }),
      async *streamApp({ appId }) {
        yield { event: { case: "started", value: { runId: "run_1", appId } } };
      },
      startRun: () => ({}),
      getRun: () => ({}),
      listRuns: () => ({}),
      cancelRun: () => ({}),
    }),
  ]),
);

const eachEntry = rpcProtocols.flatMap((protocol) =>
  (["v1", "v1alpha"] as const).map((version) => ({ protocol, version })),
);

describe.each(eachEntry)("$version over $protocol", ({ protocol, version }) => {
  /**
   * Returns the answers to the questions on one stream. Each question is sent after the previous
   * answer.
   */
  async function ask(...questions: Asked[]): Promise<ServerReflectionResponse["messageResponse"][]> {
    const client = createClient(versions[version], server.transport(protocol));
    const answers: ServerReflectionResponse["messageResponse"][] = [];
    let answered = () => {};
    async function* requests() {
      for (const messageRequest of questions) {
        const previous = new Promise<void>((resolve) => {
          answered = resolve;
        });
        yield { host: "keyrun.example", messageRequest };
        await previous;
      }
    }
    for await (const response of client.serverReflectionInfo(requests())) {
      expect(response.validHost).toBe("keyrun.example");
      expect(response.originalRequest?.messageRequest).toMatchObject(questions[answers.length] ?? {});
      // The messages of the two versions differ only in their type's name.
      answers.push(response.messageResponse as ServerReflectionResponse["messageResponse"]);
      answered();
    }
    return answers;
  }

  test("all services are listed, sorted by name", async () => {
    const [answer] = await ask({ case: "listServices", value: "" });
    expect(answer?.case === "listServicesResponse" && answer.value.service.map(({ name }) => name)).toEqual([
      "grpc.health.v1.Health",
      "grpc.reflection.v1.ServerReflection",
      "grpc.reflection.v1alpha.ServerReflection",
      "keyrun.v1.AppService",
      "keyrun.v1.KeyService",
      "keyrun.v1.RunService",
    ]);
  });

  test("a file comes with everything it imports, and a client can build its types from that alone", async () => {
    const [answer] = await ask({ case: "fileByFilename", value: "keyrun/v1/run_service.proto" });
    expect(fileNames(answer)).toEqual(runServiceFiles);
    const files = new Map(fileProtos(answer).map((file) => [file.name, file]));
    const file = new Set<FileDescriptorProto>();
    const add = (name: string) => {
      files.get(name)!.dependency.forEach(add);
      file.add(files.get(name)!);
    };
    add("keyrun/v1/run_service.proto");
    const registry = createFileRegistry({ $typeName: FileDescriptorSetSchema.typeName, file: [...file] });
    expect(registry.getService("keyrun.v1.RunService")?.method.runApp?.input.field.appId?.jsonName).toBe(
      "appId",
    );
  });

  test("a stream gets the requested file every time, and the imported files once", async () => {
    const file: Asked = { case: "fileByFilename", value: "keyrun/v1/run_service.proto" };
    const imported: Asked = { case: "fileByFilename", value: annotations };
    const answers = await ask(imported, file, file, imported);
    expect(answers.map(fileNames)).toEqual([
      [annotations, "google/api/http.proto", descriptor],
      ["keyrun/v1/run_service.proto", ...runFiles],
      ["keyrun/v1/run_service.proto"],
      [annotations],
    ]);
    expect((await ask(file)).map(fileNames)).toEqual([runServiceFiles]);
  });

  test.each([
    ["keyrun.v1.RunService", "keyrun/v1/run_service.proto"],
    ["keyrun.v1.RunService.RunApp", "keyrun/v1/run_service.proto"],
    ["keyrun.v1.RunAppRequest.app_id", "keyrun/v1/run_service.proto"],
    ["keyrun.v1.AppBackend.kind", "keyrun/v1/app.proto"],
    ["keyrun.v1.VerifyKeyResponse.Verdict", "keyrun/v1/key_service.proto"],
    ["keyrun.v1.VerifyKeyResponse.VERDICT_VALID", "keyrun/v1/key_service.proto"],
    ["keyrun.v1.KEY_STATE_ACTIVE", "keyrun/v1/key.proto"],
    ["google.api.http", annotations],
    ["grpc.reflection.v1alpha.ServerReflection", "grpc/reflection/v1alpha/reflection.proto"],
    ["google.rpc.Status", "google/rpc/status.proto"],
    ["google.rpc.ErrorInfo", errorDetails],
    ["google.rpc.BadRequest", errorDetails],
    ["google.rpc.QuotaFailure", errorDetails],
    ["google.rpc.RetryInfo", errorDetails],
    ["google.rpc.Help", errorDetails],
  ])("the symbol %s is found in its file", async (symbol, file) => {
    const [answer] = await ask({ case: "fileContainingSymbol", value: symbol });
    expect(fileNames(answer)[0]).toBe(file);
  });

  test("an extension is found by its number, and the numbers are found by the type", async () => {
    const extended = "google.protobuf.MethodOptions";
    const [file, numbers, none] = await ask(
      { case: "fileContainingExtension", value: { containingType: extended, extensionNumber: 72295728 } },
      { case: "allExtensionNumbersOfType", value: extended },
      { case: "allExtensionNumbersOfType", value: "keyrun.v1.Key" },
    );
    expect(fileNames(file)[0]).toBe(annotations);
    expect(numbers?.value).toMatchObject({ baseTypeName: extended, extensionNumber: [72295728] });
    expect(none?.value).toMatchObject({ baseTypeName: "keyrun.v1.Key", extensionNumber: [] });
  });

  test("an unknown name is answered NOT_FOUND and an empty question INVALID_ARGUMENT, and the stream goes on", async () => {
    const answers = await ask(
      { case: "fileByFilename", value: "keyrun/v1/nope.proto" },
      { case: "fileContainingSymbol", value: "keyrun.v1" },
      { case: "fileContainingSymbol", value: "keyrun.v1.RunService.Nope" },
      {
        case: "fileContainingExtension",
        value: { containingType: "google.protobuf.MethodOptions", extensionNumber: 1 },
      },
      { case: "allExtensionNumbersOfType", value: "keyrun.v1.Nope" },
      { case: undefined },
      { case: "listServices", value: "" },
    );
    expect(
      answers.map((answer) => (answer?.case === "errorResponse" ? answer.value.errorCode : "found")),
    ).toEqual([...Array(5).fill(Code.NotFound), Code.InvalidArgument, "found"]);
  });
});

test("many questions that come together are answered in a turn of the event loop each", async () => {
  const question = create(ServerReflectionRequestSchema, {
    messageRequest: { case: "listServices", value: "" },
  });
  const frame = frameOf(toBinary(ServerReflectionRequestSchema, question));
  const count = 300;
  const session = await h2cSession(server.url);
  const { stream, answer } = openGrpcCall(session, `/${ServerReflection.typeName}/ServerReflectionInfo`);
  const turns = countTurns();
  stream.end(Buffer.concat(Array.from({ length: count }, () => frame)));
  expect((await answer).trailers).toMatchObject({ "grpc-status": "0" });
  expect(turns()).toBeGreaterThanOrEqual(count);
  session.destroy();
});

describe.each(["grpc-v1", "grpc-v1alpha"])("buf curl without a schema, over %s", (reflectProtocol) => {
  test("lists the methods, calls one and reads its answer", async () => {
    const common = ["--http2-prior-knowledge", "--protocol", "grpc", "--reflect-protocol", reflectProtocol];
    const methods = await bufCurl([...common, "--list-methods", server.url]);
    expect(methods.trim().split("\n")).toEqual(
      expect.arrayContaining(["keyrun.v1.RunService/RunApp", "keyrun.v1.KeyService/VerifyKey"]),
    );
    const call = [
      ...common,
      "-d",
      '{"app_id":"echo","text":""}',
      `${server.url}/keyrun.v1.RunService/RunApp`,
    ];
    expect(JSON.parse(await bufCurl(call))).toEqual({ runId: "run_1", appId: "echo", text: "" });
  });
});

const bufBin = fileURLToPath(new URL("../../node_modules/.bin/buf", import.meta.url));

async function bufCurl(args: string[]): Promise<string> {
  return (await promisify(execFile)(process.execPath, [bufBin, "curl", ...args])).stdout;
}

function fileProtos(answer: ServerReflectionResponse["messageResponse"] | undefined) {
  if (answer?.case !== "fileDescriptorResponse") throw new Error(`No files but ${answer?.case}`);
  return answer.value.fileDescriptorProto.map((bytes) => fromBinary(FileDescriptorProtoSchema, bytes));
}

function fileNames(answer: ServerReflectionResponse["messageResponse"] | undefined): string[] {
  return fileProtos(answer).map(({ name }) => name);
}
