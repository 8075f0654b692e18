// A method as REST sees it: its work, and what the policy says of its callers and its body.

import type { Message } from "@bufbuild/protobuf";
import type { Binding } from "#transcode/binding.ts";
import type { MatchedRoute } from "#transcode/route-table.ts";
import {
  type AddressAllowanceView,
  type Admission,
  type Admit,
  type AnyoneAdmission,
  admitAnyone,
  type Caller,
} from "../admission/admission.ts";
import type { Call, CredentialKind, Principal } from "../auth/principal.ts";

/**
 * What a method answers. A server-streaming method returns its messages, which end with the call's
 * signal or when the iterator is returned. Headers and trailers are sent before the first message;
 * what the work sets later is not sent.
 */
export type RestAnswer = Message | Accepted | Promise<Message | Accepted> | AsyncIterable<Message>;

/** The answer 202: the work goes on. */
export class Accepted {
  /** The method over REST that would answer with this message. */
  readonly method: Binding["method"];
  readonly message: Message;

  constructor(method: Binding["method"], message: Message) {
    this.method = method;
    this.message = message;
  }
}

/** A method that REST callers call. */
export interface RestMethod {
  readonly method: Binding["method"];
  /** Refuses what the path alone rules out. It gets the path's values, before the body is read. */
  readonly checkPath?:
    | ((principal: Principal, captures: MatchedRoute["captures"]) => Promise<void>)
    | undefined;
  readonly answer: (request: Message, call: Call) => RestAnswer;
}

/** What the policy says of a method on the listener of the REST API. */
export interface RestPolicy {
  credentialOf(method: Binding["method"]): CredentialKind | undefined;
  /** How many bytes a request of the method may have, where one with a text may have `textMax`. */
  requestBytesMaxOf(method: Binding["method"], textMax: number): number;
}

/** What was decided about a request before its body is read. */
export type RestAdmission = Admission | AnyoneAdmission;

/** A method with all that the policy says of it. */
export interface WiredMethod extends RestMethod {
  readonly bodyBytesMax: number;
  admit(caller: Caller, allowance: AddressAllowanceView): Promise<RestAdmission>;
}

/**
 * Wires the method of a binding. Throws where there is none, and where the policy asks for a
 * credential that the REST API does not take.
 */
export function wiredMethod(
  parts: {
    readonly methods: readonly RestMethod[];
    readonly policy: RestPolicy;
    readonly admit: Admit;
    readonly bodyBytesMax: number;
  },
  { method }: Binding,
): WiredMethod {
  const rest = parts.methods.find((each) => each.method === method);
  if (!rest) throw new Error(`No REST method is wired for ${method.toString()}`);
  return {
    ...rest,
    bodyBytesMax: parts.policy.requestBytesMaxOf(method, parts.bodyBytesMax),
    admit: admissionBy(parts.policy.credentialOf(method), parts.admit, method),
  };
}

function admissionBy(
  credential: CredentialKind | undefined,
  admit: Admit,
  method: Binding["method"],
): WiredMethod["admit"] {
  if (credential === "api_key") return admit;
  if (credential === "none") return async (caller, allowance) => admitAnyone(caller, allowance);
  throw new Error(`The REST API can't admit callers of ${method.toString()} by: ${credential ?? "no row"}`);
}
