import type { MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { AppBackendSchema, AppSchema } from "#gen/keyrun/v1/app_pb.ts";
import type { RunnableAppSchema } from "#gen/keyrun/v1/app_service_pb.ts";
import type { AppRecord, BackendRecord } from "./app-store.ts";

/**
 * A stored app as internal services see it. Header values are redacted, since they may be
 * credentials.
 */
export function appMessage(app: AppRecord): MessageInitShape<typeof AppSchema> {
  return {
    id: app.id,
    displayName: app.displayName,
    backend: backendMessage(app.backend),
    timeout: durationFromMs(app.timeoutMs),
    streamTimeout: durationFromMs(app.streamTimeoutMs),
    teamIds: [...app.teamIds],
    createTime: timestampFromMs(app.createTimeMs),
  };
}

/** A stored app as the people who run it see it: without its backend. */
export function runnableAppMessage(app: AppRecord): MessageInitShape<typeof RunnableAppSchema> {
  return { id: app.id, displayName: app.displayName };
}

/** Stands in answers in place of a header's value. */
export const redacted = "[redacted]";

function backendMessage(backend: BackendRecord): MessageInitShape<typeof AppBackendSchema> {
  switch (backend.kind) {
    case "echo":
      return { kind: { case: "echo", value: {} } };
    case "http": {
      const headers = backend.headers.map(({ name }) => ({ name, value: redacted }));
      return { kind: { case: "http", value: { url: backend.url, headers } } };
    }
    case "grpc":
      return { kind: { case: "grpc", value: { target: backend.target, tls: backend.tls } } };
  }
}
