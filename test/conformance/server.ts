import { create, fromBinary, type Message, toBinary } from "@bufbuild/protobuf";
import { serveRpcs } from "../harness/rpc-listener.ts";
import { ConformanceService, conformanceService, messageType } from "./conformance-service.ts";

interface ServerCompatRequest extends Message {
  readonly useTls: boolean;
  readonly serverCreds?: { readonly cert: Uint8Array; readonly key: Uint8Array };
  readonly clientTlsCert: Uint8Array;
  readonly messageReceiveLimit: number;
}

/**
 * The server under test. It reads its settings from standard input, writes its address to standard
 * output, and serves until it is killed.
 */
const request = fromBinary(messageType("ServerCompatRequest"), await readDelimited(process.stdin));
const { useTls, serverCreds, clientTlsCert, messageReceiveLimit } = request as ServerCompatRequest;
const { port } = await serveRpcs([{ service: ConformanceService, implementation: conformanceService }], {
  ...(messageReceiveLimit > 0 && { messageBytesMax: messageReceiveLimit }),
  ...(useTls && serverCreds && { tls: tlsOf(serverCreds, clientTlsCert) }),
});
const response = create(messageType("ServerCompatResponse"), {
  host: "127.0.0.1",
  port,
  pemCert: useTls && serverCreds ? serverCreds.cert : new Uint8Array(),
});
process.stdout.write(delimited(toBinary(messageType("ServerCompatResponse"), response)));

function tlsOf({ cert, key }: { cert: Uint8Array; key: Uint8Array }, clientCa: Uint8Array) {
  return {
    cert: Buffer.from(cert),
    key: Buffer.from(key),
    clientCa: clientCa.length > 0 ? Buffer.from(clientCa) : undefined,
  };
}

/** A message on these streams: four bytes with its length, big-endian, and then its bytes. */
async function readDelimited(input: AsyncIterable<Buffer>): Promise<Uint8Array> {
  let held = Buffer.alloc(0);
  for await (const chunk of input) {
    held = Buffer.concat([held, chunk]);
    if (held.length < 4) continue;
    const end = 4 + held.readUInt32BE();
    if (held.length >= end) return held.subarray(4, end);
  }
  throw new Error("standard input ended before the whole message");
}

function delimited(message: Uint8Array): Uint8Array {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(message.length);
  return Buffer.concat([length, message]);
}
