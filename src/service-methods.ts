import type {
  DescMethodServerStreaming,
  DescMethodUnary,
  DescService,
  MessageInitShape,
  MessageShape,
} from "@bufbuild/protobuf";
import type { Call } from "./auth/principal.ts";

/**
 * The unary methods of a service as plain functions, which every door calls alike. Who may call them was decided
 * before; they refuse by throwing a `Refusal`.
 */
export type ServiceMethods<S extends DescService> = {
  [Name in keyof S["method"] as S["method"][Name] extends DescMethodUnary
    ? Name
    : never]: S["method"][Name] extends DescMethodUnary<infer Input, infer Output>
    ? (request: MessageShape<Input>, call: Call) => Answer<MessageInitShape<Output>>
    : never;
};

/** Without a promise where it is there at once. */
type Answer<T> = T | Promise<T>;

/** The methods of a service that answer with a stream, which ends when the call's signal is aborted. */
export type ServiceStreams<S extends DescService> = {
  [Name in keyof S["method"] as S["method"][Name] extends DescMethodServerStreaming
    ? Name
    : never]: S["method"][Name] extends DescMethodServerStreaming<infer Input, infer Output>
    ? (request: MessageShape<Input>, call: Call) => AsyncIterable<MessageInitShape<Output>>
    : never;
};
