import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { isAuthorized, limitPerMinute } from "./key-and-limit.ts";

let count = 0;

/** The same work as a stock Connect service: key and a counter of the minute in the method, echo. */
export function routes(router: ConnectRouter): void {
  router.service(RunService, {
    runApp({ appId, text = "" }, { requestHeader }) {
      if (!isAuthorized(requestHeader.get("authorization") ?? undefined)) {
        throw new ConnectError("invalid", Code.Unauthenticated);
      }
      if (++count > limitPerMinute) throw new ConnectError("limit", Code.ResourceExhausted);
      return { runId: `run_${crypto.randomUUID()}`, appId, text };
    },
  });
}
