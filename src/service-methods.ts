import type { DescMethodUnary, DescService, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import type { Call } from "./auth/principal.ts";

/**
 * The unary methods of a service as plain functions, which every door calls alike. Who may call them was decided
 * before; they refuse by throwing a `Refusal`.
 */
export type ServiceMethods<S extends DescService> = {
  [Name in keyof S["method"] as S["method"][Name] extends DescMethodUnary
    ? Name
    : never]: S["method"][Name] extends DescMethodUnary<infer Input, infer Output>
    ? (request: MessageShape<Input>, call: Call) => Promise<MessageInitShape<Output>>
    : never;
};
