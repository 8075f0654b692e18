/**
 * A call as a service method sees it: the proven caller, and what else it may know. Services are
 * plain functions of a message and such a call.
 */

import type {
  DescMethod,
  DescMethodBiDiStreaming,
  DescMethodClientStreaming,
  DescMethodServerStreaming,
  DescMethodUnary,
  DescService,
  MessageInitShape,
  MessageShape,
} from "@bufbuild/protobuf";
import type { HttpRequest } from "../http/handler.ts";
import type { KeyRestrictions, LookUpGuard } from "./key-evidence.ts";
import type { NamedService } from "./require-service.ts";

/**
 * What a method takes as proof: an API key; the token of internal services; a session; a session
 * whose user has preview access, for the user's own teams only; the token that the instances of a
 * fleet share; or nothing.
 */
export type CredentialKind = "api_key" | "service" | "session" | "preview_session" | "instance" | "none";

/** The caller, as the credential alone proves it, never a field of the request. */
export type Principal =
  | KeyPrincipal
  | ServicePrincipal
  | SessionPrincipal
  | { readonly kind: "instance" }
  | Anyone;

/** A caller that shows nothing. What it makes the store look up goes through the guard. */
export interface Anyone {
  readonly kind: "anyone";
  readonly address: string;
  readonly guard: LookUpGuard;
}

/** A key of a team. */
export interface KeyPrincipal {
  readonly kind: "api_key";
  readonly keyId: string;
  readonly teamId: string;
  /** Null: the key may do all that its team may. */
  readonly restrictions: KeyRestrictions | null;
}

/** An internal service. */
export interface ServicePrincipal {
  readonly kind: "service";
  /** The service whose token was shown; absent: the token of the settings, with the role admin. */
  readonly service?: NamedService;
  readonly client?: DeclaredClient;
}

/** A person who is signed in. */
export interface SessionPrincipal {
  readonly kind: "session";
  readonly sessionId: string;
  /** In lower case, and verified at sign-in. */
  readonly email: string;
}

/** What a service method knows of the call beside its request message. */
export interface Call {
  readonly principal: Principal;
  /** The request that carries the call. */
  readonly http: Pick<
    HttpRequest,
    "requestId" | "address" | "notes" | "header" | "rawHeaders" | "reservation"
  >;
  /**
   * Aborted when the caller goes away, its deadline passes, or the drain's time is over. Its reason
   * is always a `Refusal`. It may be aborted after the call's work has ended.
   */
  readonly signal: AbortSignal;
  /** The time left until the caller's deadline; undefined if the caller named none. */
  timeoutMs(): number | undefined;
  /** Metadata that is sent before the first message, also if the call is refused. */
  readonly responseHeaders: Headers;
  /** Metadata that is sent after the last message. REST sends it with the headers. */
  readonly responseTrailers: Headers;
  /**
   * What a change turns out to be about, for its event in the audit log. The method fills in what
   * the request does not tell, before it writes: a new key has its id from Keyrun.
   */
  readonly subject: ChangeSubject;
}

/** What a change is about, and what exactly it is. */
export interface ChangeSubject {
  teamId?: string;
  target?: string;
  detail?: string;
}

/**
 * The name of an actor in records: a member's e-mail, or the name of a service. With the token of
 * the settings or of the data folder, it is "the command line" or "the service token". A name has
 * no "@" and no space, so none of these can be taken for another.
 */
export function actorOf(principal: Principal): string {
  if (principal.kind === "session") return principal.email;
  if (principal.kind !== "service") return tokenName;
  const { service, client } = principal;
  if (service) return service.name;
  return client === undefined ? tokenName : clientName(client);
}

const tokenName = "the service token";

/** The request header in which a client of the internal listener says what it is. */
export const clientHeader = "keyrun-client";

/** The clients that may say so, and their names in records. */
const names = { "command-line": "the command line" } as const;

/** A client that Keyrun knows by a name of its own. */
export type DeclaredClient = keyof typeof names;

/**
 * The client that the header's value declares; undefined if there is none, or an unknown one.
 * Believe it only of a caller who has proved to be a service: it is no proof by itself.
 */
export function declaredClient(value: string | undefined): DeclaredClient | undefined {
  return value === "command-line" ? value : undefined;
}

/** The client's name in records. */
function clientName(client: DeclaredClient): string {
  return names[client];
}

/**
 * The methods of a service as plain functions, the same for every handler. The caller is already
 * authorized. A method refuses by throwing a `Refusal`. A stream ends when the call's signal is
 * aborted.
 */
export type ServiceMethods<S extends DescService> = {
  [Name in keyof S["method"]]: MethodWork<S["method"][Name]>;
};

type MethodWork<M extends DescMethod> =
  M extends DescMethodUnary<infer Input, infer Output>
    ? (request: MessageShape<Input>, call: Call) => Answer<MessageInitShape<Output>>
    : M extends DescMethodServerStreaming<infer Input, infer Output>
      ? (request: MessageShape<Input>, call: Call) => AsyncIterable<MessageInitShape<Output>>
      : M extends DescMethodClientStreaming<infer Input, infer Output>
        ? (requests: AsyncIterable<MessageShape<Input>>, call: Call) => Answer<MessageInitShape<Output>>
        : M extends DescMethodBiDiStreaming<infer Input, infer Output>
          ? (
              requests: AsyncIterable<MessageShape<Input>>,
              call: Call,
            ) => AsyncIterable<MessageInitShape<Output>>
          : never;

/** A plain value where it is there at once: a promise would cost more. */
type Answer<T> = T | Promise<T>;
