import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { isAuthorized, limitPerMinute } from "./key-and-limit.ts";

let count = 0;

/** The same work in a stock Connect service: check the key, count against a limit, echo. */
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
