import type { DescMethod } from "@bufbuild/protobuf";
import type { Refusal } from "../error.ts";

/** Told of every call that was refused, for log and metrics. */
export type OnRefusal = (
  refusal: Refusal,
  call: { readonly requestId: string; readonly method: DescMethod },
) => void;
