import { create, fromBinary, type MessageInitShape, type MessageShape, toBinary } from "@bufbuild/protobuf";
import type { Any } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { credentials, Metadata, makeGenericClientConstructor, type ServiceError } from "@grpc/grpc-js";
import { StatusSchema } from "#gen/google/rpc/status_pb.ts";
import { RunAppRequestSchema, RunAppResponseSchema, RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { answerIn, type CallerMaker, type RunOutcome } from "./callers.ts";
import { detailJson } from "./transports.ts";

type RunAppResponse = MessageShape<typeof RunAppResponseSchema>;
const { runApp } = RunService.method;

/** The method for grpc-js, made from the descriptor alone. */
const RunClient = makeGenericClientConstructor(
  {
    runApp: {
      path: `/${RunService.typeName}/${runApp.name}`,
      requestStream: false,
      responseStream: false,
      requestSerialize: (message: MessageInitShape<typeof RunAppRequestSchema>) =>
        Buffer.from(toBinary(RunAppRequestSchema, create(RunAppRequestSchema, message))),
      requestDeserialize: (bytes: Buffer) => fromBinary(RunAppRequestSchema, bytes),
      responseSerialize: (message: RunAppResponse) => Buffer.from(toBinary(RunAppResponseSchema, message)),
      responseDeserialize: (bytes: Buffer) => fromBinary(RunAppResponseSchema, bytes),
    },
  },
  RunService.typeName,
);

/** A gRPC client that shares no code with Keyrun. */
export const grpcJsCaller: CallerMaker = (url) => {
  const client = new RunClient(url.replace("http://", ""), credentials.createInsecure());
  const call = client.runApp?.bind(client);
  return {
    close: () => client.close(),
    run({ appId, text, input, authorization, headers: sent }) {
      const headers = new Headers();
      const keep = (received: Metadata) => {
        for (const [name, value] of Object.entries(received.getMap())) {
          if (typeof value === "string") headers.set(name, value);
        }
      };
      const metadata = new Metadata();
      for (const [name, value] of Object.entries({ ...sent, ...(authorization && { authorization }) })) {
        metadata.set(name, value);
      }
      return new Promise<RunOutcome>((resolve, reject) => {
        const request = { appId, ...(text !== undefined && { text }), ...(input && { input }) };
        const onEnd = (error: ServiceError | null, answer: RunAppResponse) => {
          if (!error) return resolve({ kind: "ok", answer: answerIn(answer), headers });
          try {
            keep(error.metadata);
            resolve({ ...refusalIn(error), headers });
          } catch (thrown) {
            reject(thrown);
          }
        };
        call?.(request, metadata, onEnd).on("metadata", keep);
      });
    },
  };
};

/**
 * Reads the message from the rich status. grpc-js leaves escapes like `%3A` in `grpc-message`: it
 * decodes by `decodeURI` what Connect encodes by `encodeURIComponent`.
 */
function refusalIn({ code: status, details: plain, metadata }: ServiceError) {
  const [bytes] = metadata.get("grpc-status-details-bin");
  const code = Object.values(Code).find((each): each is Code => each === Number(status)) ?? Code.Unknown;
  if (!Buffer.isBuffer(bytes)) return { kind: "refused" as const, code, message: plain, details: [] };
  const { message, details } = fromBinary(StatusSchema, bytes);
  return { kind: "refused" as const, code, message, details: details.map(readAny) };
}

function readAny({ typeUrl, value }: Any) {
  return detailJson({ type: typeUrl.slice(typeUrl.indexOf("/") + 1), value });
}
