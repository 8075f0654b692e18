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
import type { Call } from "./principal.ts";

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
