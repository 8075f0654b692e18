import { create, toBinary } from "@bufbuild/protobuf";
import { VerifyKeyRequestSchema } from "#gen/keyrun/v1/key_service_pb.ts";
import { RunAppRequestSchema } from "#gen/keyrun/v1/run_service_pb.ts";
import { grpcFrame } from "./bare-grpc.ts";
import { type Latencies, type Load, loadGrpc, loadHttp1 } from "./load.ts";
import type { Subject } from "./subject.ts";

/** The same request to servers that do the same work, and to a bare server. */
export interface Question {
  readonly name: string;
  readonly title: string;
  /** The app that the servers pass runs on to, in a process of its own. */
  readonly app?: "http" | "grpc";
  /** Files of `bench/subjects`. The first is the bare server, the unit of the others' results. */
  readonly subjects: readonly string[];
  /** How many requests at a time. Each has its table. */
  readonly connections: readonly number[];
  /** Sends the load to the subject. Throws at a wrong answer. */
  readonly send: (subject: Subject, load: Load) => Promise<Latencies>;
}

const text = "hello, how are you today?";
/** As long as a document that an app is asked about. It comes and goes in pieces. */
const longText = "x".repeat(60_000);

export const questions: readonly Question[] = [
  {
    name: "rest",
    title: "A run of echo over REST (POST /api/apps/echo/run, HTTP/1.1)",
    subjects: ["bare-http", "keyrun", "fastify", "express", "connect-json"],
    connections: [16],
    send: (subject, load) => sendRest("echo", subject, load),
  },
  {
    name: "grpc",
    title: "A run of echo over gRPC (unary RunApp, HTTP/2)",
    subjects: ["bare-http2", "keyrun", "grpc-js", "connect-grpc"],
    connections: [16],
    send: (subject, load) => sendGrpc("echo", subject, load),
  },
  {
    name: "app-http",
    title: "A run over REST that is passed on to an app behind HTTP",
    app: "http",
    subjects: ["bare-proxy", "keyrun", "nginx", "go-proxy", "fastify-proxy", "express-proxy"],
    connections: [12, 32, 1],
    send: (subject, load) => sendRest("shout", subject, load),
  },
  {
    name: "app-http-long",
    title: "A run with a text of 60 KB over REST that is passed on to an app behind HTTP",
    app: "http",
    subjects: ["bare-proxy", "keyrun", "go-proxy"],
    connections: [12],
    send: (subject, load) => sendRest("shout", subject, load, longText),
  },
  {
    name: "app-grpc-rest",
    title: "A run over REST that is passed on to an app behind gRPC",
    app: "grpc",
    subjects: ["bare-rest-to-grpc", "keyrun"],
    connections: [12, 32],
    send: (subject, load) => sendRest("shout", subject, load),
  },
  {
    name: "app-grpc",
    title: "A run over gRPC that is passed on to an app behind gRPC",
    app: "grpc",
    subjects: ["bare-grpc-proxy", "keyrun"],
    connections: [12, 32],
    send: (subject, load) => sendGrpc("shout", subject, load),
  },
  {
    name: "fleet",
    title: "A run of echo over REST on an instance of a fleet",
    subjects: ["keyrun", "keyrun-fleet", "keyrun-fleet-with-redis"],
    connections: [32],
    send: (subject, load) => sendRest("echo", subject, load),
  },
  {
    name: "quota",
    title: "A run of echo over REST by a team whose plan has a quota, and by one without",
    subjects: ["keyrun", "keyrun-quota"],
    connections: [16],
    send: (subject, load) => sendRest("echo", subject, load),
  },
  {
    name: "guard",
    title: "A guarded request (GET /api/apps/guarded/guard, HTTP/1.1) beside a run of echo",
    subjects: ["keyrun", "keyrun-guard"],
    connections: [16],
    send: (subject, load) =>
      subject.name.startsWith("keyrun-guard") ? sendGuard(subject, load) : sendRest("echo", subject, load),
  },
  {
    name: "verify-key",
    title: "VerifyKey over gRPC (HTTP/2, the internal listener)",
    subjects: ["bare-verify", "keyrun"],
    connections: [16],
    send: (subject, load) => sendVerifyKey(subject, load),
  },
];

function sendRest(appId: string, { port, apiKeys }: Subject, load: Load, sent = text): Promise<Latencies> {
  const body = JSON.stringify({ text: sent });
  const requests = orNone(apiKeys).map((apiKey) =>
    [
      `POST /api/apps/${appId}/run HTTP/1.1`,
      `Host: 127.0.0.1:${port}`,
      `Authorization: Bearer ${apiKey}`,
      "Content-Type: application/json",
      `Content-Length: ${body.length}`,
      "",
      body,
    ].join("\r\n"),
  );
  return loadHttp1(port, { requests, expected: JSON.stringify(sent) }, load);
}

/** As a proxy asks, with the path of its caller's request behind. */
function sendGuard({ port, apiKeys }: Subject, load: Load): Promise<Latencies> {
  const requests = apiKeys.map((apiKey) =>
    [
      "GET /api/apps/guarded/guard/orders/17 HTTP/1.1",
      `Host: 127.0.0.1:${port}`,
      `Authorization: Bearer ${apiKey}`,
      "\r\n",
    ].join("\r\n"),
  );
  return loadHttp1(port, { requests, expected: "" }, load);
}

function sendGrpc(appId: string, { port, apiKeys }: Subject, load: Load): Promise<Latencies> {
  const body = grpcFrame(toBinary(RunAppRequestSchema, create(RunAppRequestSchema, { appId, text })));
  const requests = orNone(apiKeys).map((credential) => ({ body, credential }));
  return loadGrpc({ port, path: "/keyrun.v1.RunService/RunApp", requests, expected: text }, load);
}

function sendVerifyKey({ internalPort, apiKeys, serviceToken }: Subject, load: Load): Promise<Latencies> {
  const requests = (apiKeys.length > 0 ? apiKeys : [`svc_${"0".repeat(24)}.${"0".repeat(49)}`]).map(
    (value) => ({
      body: grpcFrame(toBinary(VerifyKeyRequestSchema, create(VerifyKeyRequestSchema, { value }))),
      credential: serviceToken,
    }),
  );
  const path = "/keyrun.v1.KeyService/VerifyKey";
  // VERDICT_VALID: field 1, a varint, 1.
  return loadGrpc({ port: internalPort, path, requests, expected: "\u0008\u0001" }, load);
}

/** A server that asks for no key gets an empty one. */
function orNone(apiKeys: readonly string[]): readonly string[] {
  return apiKeys.length > 0 ? apiKeys : [""];
}
