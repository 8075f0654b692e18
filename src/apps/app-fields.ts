/** What an app may be: every field of its message is checked here, and nowhere else. */

import type { Duration, FieldMask } from "@bufbuild/protobuf/wkt";
import type { App, AppBackend, GrpcBackend, HttpBackend, HttpHeader } from "#gen/keyrun/v1/app_pb.ts";
import { readDisplayName, readResourceId, withoutSecret } from "../base/fields.ts";
import { bounds } from "../bounds.ts";
import { fail } from "../refusal/refusal.ts";
import type { AppChange, AppRecord, BackendRecord, HeaderRecord, NewApp } from "./app-store.ts";
import { readTemplate } from "./app-template.ts";

/**
 * A new app from its message, with the defaults filled in. Throws INVALID_ARGUMENT, naming the
 * field.
 */
export function readNewApp(app: App | undefined, createTimeMs: number): NewApp {
  if (app === undefined) throw missingApp();
  const id = readResourceId(app.id, "app.id");
  return {
    id,
    displayName: readName(app, id),
    backend: readBackend(app.backend, undefined),
    timeoutMs: readTimeoutMs(app.timeout, runTimeout),
    streamTimeoutMs: readTimeoutMs(app.streamTimeout, streamTimeout),
    backgroundTimeoutMs: readTimeoutMs(app.backgroundTimeout, backgroundTimeout),
    teamIds: readTeamIds(app.teamIds),
    createTimeMs,
  };
}

/** The app that an update is about, and the fields that it changes. Throws as `readNewApp` does. */
export function readUpdate(app: App | undefined, mask: FieldMask | undefined) {
  if (app === undefined) throw missingApp();
  return { app, id: readResourceId(app.id, "app.id"), paths: readMask(mask) };
}

/**
 * The new values of the named fields; an absent one takes its default. Throws as `readNewApp` does.
 */
export function readChange(app: App, paths: ReadonlySet<UpdatePath>, stored: AppRecord): AppChange {
  return {
    ...(paths.has("display_name") && { displayName: readName(app, stored.id) }),
    ...(paths.has("backend") && { backend: readBackend(app.backend, stored.backend) }),
    ...(paths.has("timeout") && { timeoutMs: readTimeoutMs(app.timeout, runTimeout) }),
    ...(paths.has("stream_timeout") && {
      streamTimeoutMs: readTimeoutMs(app.streamTimeout, streamTimeout),
    }),
    ...(paths.has("background_timeout") && {
      backgroundTimeoutMs: readTimeoutMs(app.backgroundTimeout, backgroundTimeout),
    }),
    ...(paths.has("team_ids") && { teamIds: readTeamIds(app.teamIds) }),
  };
}

export type UpdatePath = (typeof updatePaths)[number];
const updatePaths = [
  ...(["display_name", "backend", "team_ids"] as const),
  ...(["timeout", "stream_timeout", "background_timeout"] as const),
] as const;

function readMask(mask: FieldMask | undefined): ReadonlySet<UpdatePath> {
  const named = new Set<UpdatePath>();
  for (const path of mask?.paths ?? []) {
    const known = updatePaths.find((updatePath) => updatePath === path);
    if (known === undefined) {
      throw invalid("update_mask", `update_mask may name ${updatePaths.join(", ")}, and nothing else.`);
    }
    named.add(known);
  }
  if (named.size > 0) return named;
  throw invalid("update_mask", `update_mask must name what to change: ${updatePaths.join(", ")}.`);
}

function readName(app: App, id: string): string {
  return readDisplayName(app.displayName, "app.display_name") || id;
}

interface TimeoutField {
  readonly param: string;
  readonly msDefault: number;
  readonly msMax: number;
}

const runTimeout: TimeoutField = {
  param: "app.timeout",
  msDefault: bounds.appTimeoutMsDefault,
  msMax: bounds.appTimeoutMsMax,
};
const streamTimeout: TimeoutField = {
  param: "app.stream_timeout",
  msDefault: bounds.appStreamTimeoutMsDefault,
  msMax: bounds.appStreamTimeoutMsMax,
};
const backgroundTimeout: TimeoutField = {
  param: "app.background_timeout",
  msDefault: bounds.appBackgroundTimeoutMsDefault,
  msMax: bounds.appBackgroundTimeoutMsMax,
};

function readTimeoutMs(timeout: Duration | undefined, { param, msDefault, msMax }: TimeoutField): number {
  if (timeout === undefined) return msDefault;
  // Rounded up, so that the shortest timeout is one millisecond and not zero.
  const ms = Number(timeout.seconds) * 1_000 + Math.ceil(timeout.nanos / 1_000_000);
  if (ms > 0 && ms <= msMax) return ms;
  throw invalid(param, `${param} must be more than 0 and at most ${msMax / 1_000} s.`);
}

function readTeamIds(teamIds: readonly string[]): readonly string[] {
  if (teamIds.length > bounds.appTeamsMax) {
    throw invalid(
      "app.team_ids",
      `app.team_ids must name at most ${bounds.appTeamsMax} teams, or none for all.`,
    );
  }
  return [...new Set(teamIds.map((teamId) => readResourceId(teamId, "app.team_ids")))];
}

/**
 * A backend from its message. A header value of "[redacted]" keeps the value that `stored` has for
 * this name, so that what was read can be sent back. It does not keep it for another server:
 * somebody who may change an app could otherwise have its credentials sent to a server of their
 * own. Throws INVALID_ARGUMENT, naming the field.
 */
export function readBackend(
  message: AppBackend | undefined,
  stored: BackendRecord | undefined,
): BackendRecord {
  const kind = message?.kind;
  switch (kind?.case) {
    case "echo":
      return { kind: "echo" };
    case "http":
      return readHttp(kind.value, stored);
    case "grpc":
      return readGrpc(kind.value);
    case "guard":
      return { kind: "guard" };
    default:
      throw invalid("app.backend", "app.backend must be one of echo, http, grpc and guard.");
  }
}

function readHttp(message: HttpBackend, stored: BackendRecord | undefined): BackendRecord {
  const url = readUrl(withoutSecret(message.url, "app.backend.http.url"));
  const sameServer = stored?.kind === "http" && new URL(stored.url).origin === url.origin;
  const headers = readHeaders(message.headers, sameServer ? stored.headers : []);
  const template = readTemplate(message);
  return { kind: "http", url: url.href, headers, ...(template && { template }) };
}

// `URL` accepts more than a setting should: it drops tabs, repairs slashes, and allows an empty
// fragment.
const urlForm = /^https?:\/\/[^\s#\\/?][^\s#\\]*$/i;

function readUrl(value: string): URL {
  const url = value.length <= bounds.appUrlCharactersMax && urlForm.test(value) ? URL.parse(value) : null;
  const whole = url !== null && url.href.length <= bounds.appUrlCharactersMax;
  if (whole && url.username === "" && url.password === "") return url;
  throw invalid(
    "app.backend.http.url",
    `app.backend.http.url must be an absolute http or https URL, such as http://127.0.0.1:9000/run, of at ` +
      `most ${bounds.appUrlCharactersMax} characters, without user information or fragment. Send credentials in a header.`,
  );
}

function readHeaders(messages: readonly HttpHeader[], kept: readonly HeaderRecord[]): HeaderRecord[] {
  if (messages.length > bounds.appHeadersMax) {
    throw invalid(
      "app.backend.http.headers",
      `app.backend.http.headers must be at most ${bounds.appHeadersMax} headers.`,
    );
  }
  const headers = new Map<string, HeaderRecord>();
  for (const [index, message] of messages.entries()) {
    const param = `app.backend.http.headers[${index}]`;
    const name = readHeaderName(message.name, `${param}.name`);
    if (headers.has(name)) throw invalid(`${param}.name`, `The header ${name} is there twice. Send it once.`);
    headers.set(name, { name, value: readHeaderValue(message.value, `${param}.value`, name, kept) });
  }
  return [...headers.values()];
}

/** An HTTP token (RFC 9110, section 5.6.2), in lower case. */
const headerNameForm = new RegExp(`^[!#$%&'*+.^_\`|~0-9a-z-]{1,${bounds.appHeaderNameCharactersMax}}$`);
/** The headers that Keyrun sets, and those that say how the message itself is carried. */
const ownHeaders =
  /^(?:host|content-length|content-type|transfer-encoding|connection|keep-alive|upgrade|te|trailer|proxy-.*|accept-encoding|expect|x-request-id|x-keyrun-.*)$/;

function readHeaderName(value: string, param: string): string {
  const name = value.toLowerCase();
  if (!headerNameForm.test(name)) {
    throw invalid(
      param,
      `${param} must be a header's name: 1 to ${bounds.appHeaderNameCharactersMax} letters, digits and hyphens.`,
    );
  }
  if (ownHeaders.test(name)) throw invalid(param, `Keyrun or the connection sets ${name}. Leave it out.`);
  return name;
}

// Printable ASCII. A space at either end is refused, because it would be lost on the way.
const headerValueForm = new RegExp(`^(?! )[\\x20-\\x7e]{1,${bounds.appHeaderValueCharactersMax}}(?<! )$`);

/** Stands in answers in place of a header's value. */
export const redacted = "[redacted]";

function readHeaderValue(value: string, param: string, name: string, kept: readonly HeaderRecord[]): string {
  if (value === redacted) {
    const stored = kept.find((header) => header.name === name);
    if (stored !== undefined) return stored.value;
    throw invalid(param, `No value of ${name} is stored for this server. Send the value itself.`);
  }
  if (headerValueForm.test(value)) return value;
  throw invalid(
    param,
    `${param} must be 1 to ${bounds.appHeaderValueCharactersMax} printable ASCII characters, no space at either end.`,
  );
}

// A host name or IPv4 address, or an IPv6 address in brackets; then a port.
const targetForm = /^(?:[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_])?|\[[0-9a-f:.]{2,45}\]):(?<port>\d{1,5})$/i;

function readGrpc({ target, tls }: GrpcBackend): BackendRecord {
  withoutSecret(target, "app.backend.grpc.target");
  const port = Number(targetForm.exec(target)?.groups?.port ?? 0);
  if (port >= 1 && port <= 65_535) return { kind: "grpc", target, tls };
  throw invalid("app.backend.grpc.target", "app.backend.grpc.target must be HOST:PORT, like 127.0.0.1:9001.");
}

function missingApp() {
  return invalid("app", "app must be there.");
}

function invalid(param: string, problem: string) {
  return fail("INVALID_ARGUMENT", { param, problem });
}
