import { Health } from "#gen/grpc/health/v1/health_pb.ts";
import { ServerReflection } from "#gen/grpc/reflection/v1/reflection_pb.ts";
import { ServerReflection as ServerReflectionV1Alpha } from "#gen/grpc/reflection/v1alpha/reflection_pb.ts";
import type { Call } from "../auth/principal.ts";
import { bounds } from "../bounds.ts";
import type { Readiness } from "../http/readiness.ts";
import { untilEnded } from "../http/until-ended.ts";
import { createHealth } from "../rpc/health.ts";
import { createReflection } from "../rpc/reflection.ts";
import { type ServedService, served } from "../rpc/served.ts";

/**
 * Health and reflection, for Keyrun's own services. Their streams end when `streamsEnd` aborts: a
 * stream that waits for its caller would hold a drain up to its end.
 */
export function operationServices(
  ownServices: readonly ServedService[],
  { readiness, streamsEnd }: { readiness: Readiness; streamsEnd: AbortSignal },
) {
  const own = ownServices.map(({ service }) => service);
  const reflection = createReflection([...own, Health, ServerReflection, ServerReflectionV1Alpha]);
  const serviceNames = own.map(({ typeName }) => typeName);
  const health = createHealth({ serviceNames, readiness, watchersMax: bounds.healthWatchersMax });
  const ends =
    <Request, Answer>(open: (request: Request, call: Call) => AsyncIterable<Answer>) =>
    (request: Request, call: Call) =>
      untilEnded(open(request, call), streamsEnd);
  return [
    served(Health, { ...health, watch: ends(health.watch) }),
    served(ServerReflection, { serverReflectionInfo: ends(reflection.v1.serverReflectionInfo) }),
    served(ServerReflectionV1Alpha, { serverReflectionInfo: ends(reflection.v1alpha.serverReflectionInfo) }),
  ];
}
