import {
  create,
  type DescMessage,
  type MessageInitShape,
  type MessageJsonType,
  toJson,
} from "@bufbuild/protobuf";
import type { Sent } from "../../web/api/messages.ts";

/** The message as the screen gets it: in JSON, without the fields that have their defaults. */
export function sent<Desc extends DescMessage>(
  schema: Desc,
  init: MessageInitShape<Desc>,
): Sent<MessageJsonType<Desc>> {
  return toJson(schema, create(schema, init)) as Sent<MessageJsonType<Desc>>;
}
