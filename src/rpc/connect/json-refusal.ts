import type { DescField, DescMessage, DescOneof } from "@bufbuild/protobuf";
import type { ConnectError } from "@connectrpc/connect";
import { bounds } from "../../bounds.ts";
import { cutText } from "../../refusal/cut-text.ts";
import { fail, type Refusal } from "../../refusal/refusal.ts";
import { nameTwice } from "../../transcode/json-text.ts";
import { createChecks } from "../../transcode/message-check.ts";

/**
 * Says in the words of REST why JSON does not fit a message, and names the wrong field. Connect
 * reads it with protobuf-es, whose messages quote values and name types of the protos.
 */
export function jsonRefusal({ cause, rawMessage }: ConnectError, input: DescMessage): Refusal {
  // An error of ours, such as that of too many values.
  if (cause === undefined) return fail("INVALID_ARGUMENT", { problem: rawMessage });
  if (isNoJson(cause)) return fail("INVALID_JSON");
  if (duplicateName.test(rawMessage)) return fail("INVALID_JSON", { problem: nameTwice });
  const [, unknown] = unknownField.exec(rawMessage) ?? [];
  // REST writes an empty name in this way too.
  if (unknown !== undefined) return atFault(unknown || '""', notHere);
  const field = fieldAtFault(cause);
  if (field?.kind === "field") return atFault(field.name, wordsFor(field, rawMessage));
  if (field) {
    const names = field.fields.map(({ name }) => name).join(", ");
    return fail("INVALID_ARGUMENT", { problem: `Send at most one of: ${names}.` });
  }
  const isWhole = rawMessage.startsWith(`cannot decode message ${input.typeName} from JSON: `);
  const problem = isWhole ? "The body must be a JSON object." : unreadable(input);
  return fail("INVALID_ARGUMENT", { problem });
}

/** What is said of a message that is not in its form. */
export function unreadable({ typeName }: DescMessage): string {
  return `The message can't be read as ${typeName}.`;
}

const notHere = "is no field here. Remove it, or check its spelling";

function atFault(param: string, words: string): Refusal {
  const problem = `${cutText(param, bounds.refusalNameBytesMax)} ${words}.`;
  return fail("INVALID_ARGUMENT", { param, problem });
}

const checks = createChecks(undefined);

/** What REST says of a value of the wrong type: an array is one for all but lists. */
function wordsFor(field: DescField, message: string): string {
  if (message.endsWith(": set multiple times")) return "is there twice. Send it once";
  if (field.fieldKind === "list" && !message.includes(": list item ")) return "must be an array";
  if (field.fieldKind === "map") return "must be an object with values of its type";
  const words = checks.ofItem(field)([], 0)?.words ?? "can't be read";
  return field.fieldKind === "list" ? `has an item that ${words}` : words;
}

/** Whether the bytes are not UTF-8 or not JSON: protobuf-es keeps the parser's error as a cause. */
function isNoJson(cause: unknown): boolean {
  if (!(cause instanceof Error)) return false;
  return (
    cause.cause instanceof SyntaxError ||
    ("code" in cause && cause.code === "ERR_ENCODING_INVALID_ENCODED_DATA")
  );
}

/** The field, or the choice of fields, that protobuf-es keeps with its error. */
function fieldAtFault(cause: unknown): DescField | DescOneof | undefined {
  const inner = cause instanceof Error ? cause.cause : undefined;
  if (!(inner instanceof Error) || !("field" in inner) || typeof inner.field !== "function") return undefined;
  return inner.field();
}

/** Match the messages in which protobuf-es says what it can't read. */
const duplicateName = /^cannot decode message \S+ from JSON: duplicate object key "/;
const unknownField = /^cannot decode message \S+ from JSON: key "([\s\S]*)" is unknown$/;
