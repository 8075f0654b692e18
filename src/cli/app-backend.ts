/** The options of `apps create` and `apps update` that say where a run is sent, and how. */

import { type Command, Option } from "commander";
import type { AppBackendJson, HttpBackendJson } from "#gen/keyrun/v1/app_pb.ts";
import { append } from "./command-words.ts";
import type { SettingsWorld } from "./connection.ts";
import { wrongUse } from "./failures.ts";

const kinds = ["echo", "http", "grpc", "guard"] as const;
type Kind = (typeof kinds)[number];

export function backendOption(): Option {
  return new Option(
    "--backend <kind>",
    "where a run is sent; guard: a service that a proxy protects",
  ).choices(kinds);
}

/** What is absent was not given, and false is `--no-…`. */
export interface BackendOptions {
  readonly backend?: Kind;
  readonly url?: string;
  readonly header?: readonly string[];
  readonly headers?: false;
  readonly target?: string;
  readonly tls?: boolean;
  readonly request?: string | false;
  readonly textAt?: string | false;
  readonly outputAt?: string | false;
  readonly streamTextAt?: string | false;
  readonly streamEvent?: string | false;
}

export function addBackendOptions(command: Command): Command {
  return command
    .option("--url <url>", "http: where to POST")
    .option("--header <header>", "http: a header to send, 'Name: value'; repeat it for more", append)
    .option("--target <host:port>", "grpc: the server")
    .option("--tls", "grpc: use TLS")
    .option("--request <json>", "http: what to send in place of Keyrun's own JSON, or @file with it")
    .option(
      "--text-at <pointer>",
      "http: where the text stands in an answer, like /choices/0/message/content",
    )
    .option(
      "--output-at <pointer>",
      "http: where the output as JSON stands in an answer, like /data; '' for the whole answer",
    )
    .option("--stream-text-at <pointer>", "http: where it stands in each message of a stream")
    .option("--stream-event <member=value>", "http: which messages of a stream have text, like event=token");
}

/** What `apps update` can take away again. */
export function addBackendClearing(command: Command): Command {
  return command
    .option("--no-headers", "http: send no headers of its own any more")
    .option("--no-tls", "grpc: use no TLS")
    .option("--no-request", "http: send Keyrun's own JSON again")
    .option("--no-text-at", "http: read the member text of an answer again")
    .option("--no-output-at", "http: read no JSON from an answer again")
    .option("--no-stream-text-at", "http: read the messages of a stream as a whole answer")
    .option("--no-stream-event", "http: every message of a stream may have text");
}

export function describeBackend(backend: AppBackendJson = {}): string {
  const { http, grpc } = backend;
  if (grpc !== undefined) return `grpc ${grpc.target}${grpc.tls ? " (TLS)" : ""}`;
  return http === undefined ? kindOf(backend) : `http ${http.url}`;
}

/** The name of the backend's kind. */
function kindOf(backend: AppBackendJson): Kind {
  return kinds.find((kind) => backend[kind] !== undefined) ?? "echo";
}

/** Whether an option says where the app's server is. */
export function namesAddress({ backend, url, target, tls }: BackendOptions): boolean {
  return [backend, url, target, tls].some((each) => each !== undefined);
}

/** Whether an option says something about the backend. */
export function namesBackend(options: BackendOptions): boolean {
  return namesAddress(options) || namesHttp(options);
}

/** Whether an option is for an app over HTTP alone. */
function namesHttp(options: BackendOptions): boolean {
  return options.headers === false || httpOptions.some((name) => options[name] !== undefined);
}

const httpOptions = [
  "url",
  "header",
  "request",
  "textAt",
  "outputAt",
  "streamTextAt",
  "streamEvent",
] as const;

/**
 * The backend that the options describe. What they leave out stays as in `before`, if that is of
 * the same kind. Throws for options that contradict each other.
 */
export function readBackend(
  options: BackendOptions,
  world: SettingsWorld,
  before: AppBackendJson = {},
): AppBackendJson {
  const { url, header, headers, target, tls } = options;
  const kind = options.backend ?? kindOf(before);
  if (kind !== "http" && namesHttp(options)) {
    throw wrongUse(
      "--url, --header, --request and what says where the output stands are for --backend http.",
    );
  }
  if (kind !== "grpc" && (target !== undefined || tls !== undefined)) {
    throw wrongUse("--target and --tls are for --backend grpc.");
  }
  if (header !== undefined && headers === false) throw wrongUse("Give --header or --no-headers, not both.");
  if (kind === "http") {
    // Headers may hold credentials, so those of another server don't go along.
    const kept = url === undefined ? (before.http?.headers ?? []) : [];
    const all = { url, headers: headers === false ? [] : header && merged(kept, header.map(readHeader)) };
    const http = { ...before.http, ...withoutAbsent(all), ...readTemplate(options, world) };
    // An empty pointer is the whole answer, so this field alone is cleared by its absence.
    if (options.outputAt === false) delete http.outputAt;
    if (http.url === undefined) throw wrongUse("--backend http needs --url, where to POST.");
    return { http };
  }
  if (kind === "grpc") {
    const grpc = { ...before.grpc, ...withoutAbsent({ target, tls }) };
    if (grpc.target === undefined) throw wrongUse("--backend grpc needs --target, the server's HOST:PORT.");
    return { grpc };
  }
  return kind === "guard" ? { guard: {} } : { echo: {} };
}

/** A malformed header is never repeated in the error: it is most often a credential. */
function readHeader(text: string): { name: string; value: string } {
  const colon = text.indexOf(":");
  if (colon < 1) throw wrongUse("--header must be like 'Name: value'.");
  return { name: text.slice(0, colon).trim(), value: text.slice(colon + 1).trim() };
}

/** The headers with those of the same name replaced. */
function merged<Header extends { name?: string }>(
  before: readonly Header[],
  given: readonly Header[],
): Header[] {
  const names = new Set(given.map(({ name = "" }) => name.toLowerCase()));
  return [...before.filter(({ name = "" }) => !names.has(name.toLowerCase())), ...given];
}

/** The fields of the template that the options name; an empty one is cleared. */
function readTemplate(options: BackendOptions, world: SettingsWorld) {
  const { request, textAt, outputAt, streamTextAt, streamEvent } = options;
  return withoutAbsent({
    request: request ? readRequest(request, world) : cleared(request),
    textAt: cleared(textAt),
    outputAt: outputAt === false ? undefined : outputAt,
    streamTextAt: cleared(streamTextAt),
    streamEvent: cleared(streamEvent),
  });
}

function cleared(value: string | false | undefined): string | undefined {
  return value === false ? "" : value;
}

function readRequest(text: string, { readFile }: SettingsWorld): string {
  if (!text.startsWith("@")) return text;
  const path = text.slice(1);
  try {
    return readFile(path).trim() || "(empty)";
  } catch {
    throw wrongUse(`The file ${path} of --request can't be read.`);
  }
}

/** The lines of `apps show`. Only white space between values of JSON can hold a line break. */
export function templateLines(http: HttpBackendJson = {}): [string, string][] {
  const { request = "", textAt = "", outputAt, streamTextAt = "", streamEvent = "" } = http;
  const lines: [string, string][] = [
    ["request", request.replace(/\s*[\r\n]\s*/g, " ")],
    ["text at", textAt],
    ["output at", outputAt === "" ? "the whole answer" : (outputAt ?? "")],
    ["stream text at", streamTextAt],
    ["stream event", streamEvent],
  ];
  return lines.filter(([, value]) => value !== "");
}

type Given<Fields> = { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> };

export function withoutAbsent<Fields extends object>(fields: Fields): Given<Fields> {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as Given<Fields>;
}
