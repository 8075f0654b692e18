import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  AppBackendService,
  StreamRunRequestSchema,
  StreamRunResponseSchema,
} from "#gen/keyrun/v1/app_backend_service_pb.ts";
import type { Refusal } from "../refusal/refusal.ts";
import { appFailed } from "./backend-runner.ts";
import type { Run } from "./runner.ts";

export type GrpcMethod = "run" | "streamRun";

export const grpcPaths: Readonly<Record<GrpcMethod, string>> = {
  run: `/${AppBackendService.typeName}/${AppBackendService.method.run.name}`,
  streamRun: `/${AppBackendService.typeName}/${AppBackendService.method.streamRun.name}`,
};

/** The request of either method: they have the same fields. */
export function requestOf({ runId, teamId, app, text }: Run): Buffer {
  const request = create(StreamRunRequestSchema, { runId, teamId, appId: app.id, text });
  const { buffer, byteOffset, byteLength } = toBinary(StreamRunRequestSchema, request);
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** The text of a message of either method; APP_FAILED if it can't be read. */
export function textOf(message: Buffer): string | Refusal {
  try {
    return fromBinary(StreamRunResponseSchema, message).text;
  } catch {
    return appFailed("A message of the app can't be read.");
  }
}
