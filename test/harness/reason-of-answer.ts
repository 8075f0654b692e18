import { fromBinary } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { codeFromString } from "@connectrpc/connect/protocol-connect";
import { ErrorInfoSchema } from "#gen/google/rpc/error_details_pb.ts";
import { StatusSchema } from "#gen/google/rpc/status_pb.ts";
import { type Reason, reasons, rowOf } from "#src/refusal/reasons.ts";
import type { WireAnswer } from "./exchange.ts";

/**
 * Returns the reason that an answer names in the form of its protocol: the code alone where its
 * status has no details, as any framework's own error. Undefined if it names none.
 */
export function reasonOfAnswer({ headers, trailers, body }: WireAnswer): string | undefined {
  const type = String(headers["content-type"] ?? "");
  const isWeb = type.startsWith("application/grpc-web");
  const trailer = (name: string) =>
    trailers[name] ?? headers[name] ?? (isWeb ? webTrailer(body, name) : undefined);
  const status = trailer("grpc-status-details-bin");
  if (status !== undefined) return reasonOfStatus(String(status));
  const code = trailer("grpc-status");
  if (code !== undefined) return bareReasons.get(Number(code));
  if (type === "application/connect+json") return reasonOfJson(lastMessage(body));
  if (type === "application/problem+json") return JSON.parse(body.toString()).code.toUpperCase();
  return type.includes("json") ? reasonOfJson(body) : undefined;
}

/** The reasons without details, by their codes: no two of them share one. */
export const bareReasons: ReadonlyMap<Code, string> = new Map(
  Object.keys(reasons)
    .map((reason) => [rowOf(reason as Reason), reason] as const)
    .filter(([row]) => row.withoutRpcDetails)
    .map(([row, reason]) => [row.code, reason]),
);

function reasonOfStatus(base64: string): string | undefined {
  const { details } = fromBinary(StatusSchema, Buffer.from(base64, "base64"));
  return details.flatMap(({ typeUrl, value }) => reasonsOf(typeUrl, value))[0];
}

function reasonsOf(typeUrl: string, value: Uint8Array): string[] {
  return typeUrl.endsWith(ErrorInfoSchema.typeName) ? [fromBinary(ErrorInfoSchema, value).reason] : [];
}

interface ConnectError {
  readonly code?: string;
  readonly details?: readonly { readonly type: string; readonly value: string }[];
}

/**
 * Reads an error of REST or of Connect: a unary answer, or the end of a stream, which holds the
 * error as a property.
 */
function reasonOfJson(bytes: Uint8Array): string | undefined {
  const told: { error?: ConnectError & { code: string; requestId?: string } } & ConnectError = JSON.parse(
    Buffer.from(bytes).toString(),
  );
  if (told.error?.requestId !== undefined) return told.error.code.toUpperCase();
  const { code = "", details = [] } = told.error ?? told;
  if (details.length === 0) return bareReasons.get(codeFromString(code) ?? Code.Unknown);
  return details.flatMap(({ type, value }) => reasonsOf(type, Buffer.from(value, "base64")))[0];
}

/** Before each message are five bytes: its flags and its length. */
export function messagesIn(body: Buffer): { readonly flags: number; readonly bytes: Buffer }[] {
  const messages: { flags: number; bytes: Buffer }[] = [];
  for (let at = 0; at + 5 <= body.length; ) {
    const end = at + 5 + body.readUInt32BE(at + 1);
    messages.push({ flags: body[at] ?? 0, bytes: body.subarray(at + 5, end) });
    at = end;
  }
  return messages;
}

function lastMessage(body: Buffer): Buffer {
  return messagesIn(body).at(-1)?.bytes ?? Buffer.from("{}");
}

/** gRPC-Web sends its trailers in the body, as lines. */
function webTrailer(body: Buffer, name: string): string | undefined {
  const trailers = messagesIn(body).find(({ flags }) => (flags & 0x80) !== 0);
  const lines = trailers?.bytes.toString("latin1").split("\r\n") ?? [];
  const line = lines.find((each) => each.toLowerCase().startsWith(`${name}:`));
  return line?.slice(name.length + 1).trim();
}
