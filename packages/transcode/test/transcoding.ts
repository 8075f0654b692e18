import { execFileSync } from "node:child_process";
import {
  create,
  createFileRegistry,
  type DescMessage,
  type DescService,
  type FileRegistry,
  fromBinary,
  type JsonValue,
  type Message,
  type MessageInitShape,
  setExtension,
  toJson,
} from "@bufbuild/protobuf";
import {
  FileDescriptorProtoSchema,
  FileDescriptorSetSchema,
  MethodOptionsSchema,
} from "@bufbuild/protobuf/wkt";
import { http } from "../gen/google/api/annotations_pb.ts";
import { HttpRuleSchema } from "../gen/google/api/http_pb.ts";
import type { BodyHeaders } from "../src/decode.ts";
import type { Problem } from "../src/problem.ts";
import { createTranscoder, type Transcoder } from "../src/transcoder.ts";

/** The messages of `protos/`, compiled when this file is loaded. */
export const testTypes: FileRegistry = compileTestProtos();

/** A message type of the test protos, by its short name. */
export function testType(name: string): DescMessage {
  return testTypes.getMessage(`transcode.test.${name}`) ?? testTypes.getMessage(name)!;
}

/** One annotated method. Types are short names, by default "BookRequest" and "BookReply". */
export interface TestRule {
  rule: MessageInitShape<typeof HttpRuleSchema>;
  input?: string;
  output?: string;
  clientStreaming?: boolean;
  serverStreaming?: boolean;
}

/** The service `transcode.test.Library` with a method for each rule: `Call0`, `Call1` and so on. */
export function serviceOf(...rules: TestRule[]): DescService {
  const method = rules.map((each, index) => {
    const options = create(MethodOptionsSchema);
    setExtension(options, http, create(HttpRuleSchema, each.rule));
    return {
      name: `Call${index}`,
      inputType: `.${testType(each.input ?? "BookRequest").typeName}`,
      outputType: `.${testType(each.output ?? "BookReply").typeName}`,
      clientStreaming: each.clientStreaming ?? false,
      serverStreaming: each.serverStreaming ?? false,
      options,
    };
  });
  const file = create(FileDescriptorProtoSchema, {
    name: "library.proto",
    package: "transcode.test",
    syntax: "proto3",
    dependency: [...testTypes.files].map((each) => `${each.name}.proto`),
    service: [{ name: "Library", method }],
  });
  return createFileRegistry(file, (name) => testTypes.getFile(name)).getService("transcode.test.Library")!;
}

type Pattern = NonNullable<MessageInitShape<typeof HttpRuleSchema>["pattern"]>;

/** Reads a rule like "POST /v1/{name} book": method, template and an optional body. */
export function ruleOf(rule: string): { pattern: Pattern; body: string } {
  const [method = "", path = "", body = ""] = rule.split(" ");
  const known = ["get", "put", "post", "delete", "patch"] as const;
  const name = known.find((each) => each === method.toLowerCase());
  if (name === undefined) return { pattern: { case: "custom", value: { kind: method, path } }, body };
  return { pattern: { case: name, value: path }, body };
}

interface Sent {
  /** "message", or the reason why there is none. */
  kind: "message" | "not_found" | "method_not_allowed" | "bad_escape" | Problem["problem"];
  /** The message as ProtoJSON without defaults. */
  json?: JsonValue;
  message?: Message;
  param?: string | null;
  words?: string;
  allow?: string[];
}

export interface Edge {
  transcoder: Transcoder;
  /** Sends "POST /v1/path?query" with a body: bytes and strings unchanged, other values as JSON. */
  send(line: string, body?: unknown, headers?: Partial<BodyHeaders>): Sent;
}

/** A transcoder for rules like "POST /v1/{name} book" (method, template, body) or complete ones. */
export function edgeOf(...rules: (string | TestRule)[]): Edge {
  const inFull = rules.map((rule) => (typeof rule === "string" ? { rule: ruleOf(rule) } : rule));
  const transcoder = createTranscoder([serviceOf(...inFull)], { registry: testTypes });
  return {
    transcoder,
    send(line, body, headers = {}) {
      const [method = "", target = ""] = line.split(" ");
      const match = transcoder.match(method, target);
      if (match.kind !== "found") return match;
      const { contentType, contentEncoding } = headers;
      const decoded = transcoder.decodeRequest(match.route, {
        contentType,
        contentEncoding,
        body: bytesOf(body),
      });
      if (decoded.kind === "problem")
        return { ...decoded, kind: decoded.problem, words: sentenceOf(decoded) };
      const { message } = decoded;
      const json = toJson(match.route.binding.method.input, message, { registry: testTypes });
      return { kind: "message", json, message };
    },
  };
}

function sentenceOf({ param, words }: Problem): string {
  return param === null ? words : `${param} ${words}`;
}

function bytesOf(body: unknown): Uint8Array {
  if (body === undefined) return new Uint8Array();
  if (body instanceof Uint8Array) return body;
  return new TextEncoder().encode(typeof body === "string" ? body : JSON.stringify(body));
}

function compileTestProtos(): FileRegistry {
  const modules = ["proto", "packages/transcode/test/protos"].map((path) => ({ path }));
  const config = JSON.stringify({ version: "v2", modules });
  const root = new URL("../../..", import.meta.url);
  const buf = new URL("node_modules/.bin/buf", root).pathname;
  const set = execFileSync(buf, ["build", "-o", "-", "--as-file-descriptor-set", "--config", config], {
    cwd: root,
  });
  return createFileRegistry(fromBinary(FileDescriptorSetSchema, set));
}
