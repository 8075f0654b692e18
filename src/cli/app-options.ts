import type { AppBackendJson } from "#gen/keyrun/v1/app_pb.ts";
import { wrongUse } from "./command-failure.ts";

/** The options of `apps create` and `apps update`. What is absent was not given. */
export interface AppOptions {
  readonly backend?: "echo" | "http" | "grpc";
  readonly url?: string;
  readonly header?: readonly string[];
  /** False: --no-headers. */
  readonly headers?: false;
  readonly target?: string;
  readonly tls?: boolean;
  readonly timeout?: string;
  readonly streamTimeout?: string;
  readonly team?: readonly string[];
  readonly allTeams?: true;
  readonly name?: string;
}

/** Whether an option says something about the backend. */
export function namesBackend({ backend, url, header, headers, target, tls }: AppOptions): boolean {
  return [backend, url, header, headers === false || undefined, target, tls].some(
    (each) => each !== undefined,
  );
}

/**
 * The backend that the options describe. What they leave out stays as in `before`, if that is of
 * the same kind. Throws for options that contradict each other.
 */
export function readBackend(options: AppOptions, before: AppBackendJson = {}): AppBackendJson {
  const { url, header, headers, target, tls } = options;
  const kind = options.backend ?? kindOf(before);
  if (kind !== "http" && (url !== undefined || header !== undefined || headers === false)) {
    throw wrongUse("--url and --header are for --backend http.");
  }
  if (kind !== "grpc" && (target !== undefined || tls !== undefined)) {
    throw wrongUse("--target and --tls are for --backend grpc.");
  }
  if (header !== undefined && headers === false) throw wrongUse("Give --header or --no-headers, not both.");
  if (kind === "http") {
    // Headers may hold credentials, so those of another server don't go along.
    const kept = url === undefined ? (before.http?.headers ?? []) : [];
    const all = { url, headers: headers === false ? [] : header && merged(kept, header.map(readHeader)) };
    const http = { ...before.http, ...withoutAbsent(all) };
    if (http.url === undefined) throw wrongUse("--backend http needs --url, where to POST.");
    return { http };
  }
  if (kind === "grpc") {
    const grpc = { ...before.grpc, ...withoutAbsent({ target, tls }) };
    if (grpc.target === undefined) throw wrongUse("--backend grpc needs --target, the server's HOST:PORT.");
    return { grpc };
  }
  return { echo: {} };
}

/** The name of the backend's kind. */
export function kindOf({ http, grpc }: AppBackendJson): "echo" | "http" | "grpc" {
  if (http !== undefined) return "http";
  return grpc === undefined ? "echo" : "grpc";
}

/** A Duration in JSON, from the value of this option. */
export function readTimeout(text: string, option: "--timeout" | "--stream-timeout"): string {
  const [, digits, unit] = /^(\d{1,6}(?:\.\d{1,3})?)(ms|s)$/.exec(text) ?? [];
  if (digits === undefined) throw wrongUse(`${option} must be a number with s or ms, like 30s or 500ms.`);
  return `${Math.round(Number(digits) * (unit === "s" ? 1000 : 1)) / 1000}s`;
}

/** The headers with those of the same name replaced. */
function merged<Header extends { name?: string }>(
  before: readonly Header[],
  given: readonly Header[],
): Header[] {
  const names = new Set(given.map(({ name = "" }) => name.toLowerCase()));
  return [...before.filter(({ name = "" }) => !names.has(name.toLowerCase())), ...given];
}

/** A malformed header is never repeated in the error: it is most often a credential. */
function readHeader(text: string): { name: string; value: string } {
  const colon = text.indexOf(":");
  if (colon < 1) throw wrongUse("--header must be like 'Name: value'.");
  return { name: text.slice(0, colon).trim(), value: text.slice(colon + 1).trim() };
}

type Given<Fields> = { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> };

function withoutAbsent<Fields extends object>(fields: Fields): Given<Fields> {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as Given<Fields>;
}
