import { create, toBinary } from "@bufbuild/protobuf";
import { RunAppRequestSchema } from "#gen/keyrun/v1/run_service_pb.ts";
import { type Load, loadGrpc, loadHttp1 } from "./load.ts";
import type { Subject } from "./subject.ts";

/** One table: the same request to servers that do the same work, and to a bare server. */
export interface Question {
  readonly name: "rest" | "grpc";
  readonly title: string;
  /** Files of `bench/subjects`. The first is the bare server, the unit of the others' results. */
  readonly subjects: readonly string[];
  /** Sends the load to the subject. Throws at a wrong answer. */
  readonly send: (subject: Subject, load: Load) => Promise<void>;
}

const text = "hello, how are you today?";

export const questions: readonly Question[] = [
  {
    name: "rest",
    title: "A run over REST (POST /api/apps/echo/run, HTTP/1.1)",
    subjects: ["bare-http", "keyrun", "fastify", "express", "connect-json"],
    send: (subject, load) => loadHttp1(subject.port, restRequest(subject), load),
  },
  {
    name: "grpc",
    title: "A run over gRPC (unary RunApp, HTTP/2)",
    subjects: ["bare-http2", "keyrun", "grpc-js", "connect-grpc"],
    send: ({ port, apiKey }, load) =>
      loadGrpc({ port, path: "/keyrun.v1.RunService/RunApp", body: grpcMessage(), apiKey }, load),
  },
];

function restRequest({ port, apiKey }: Subject): string {
  const body = JSON.stringify({ text });
  return [
    "POST /api/apps/echo/run HTTP/1.1",
    `Host: 127.0.0.1:${port}`,
    `Authorization: Bearer ${apiKey}`,
    "Content-Type: application/json",
    `Content-Length: ${body.length}`,
    "",
    body,
  ].join("\r\n");
}

function grpcMessage(): Buffer {
  const message = toBinary(RunAppRequestSchema, create(RunAppRequestSchema, { appId: "echo", text }));
  const frame = Buffer.alloc(5 + message.length);
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, 5);
  return frame;
}
