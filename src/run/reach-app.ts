import { promisify } from "node:util";
import { buildConnector } from "undici";
import { innermostCause } from "../base/innermost-cause.ts";
import { trustedRoots } from "../base/trusted-roots.ts";
import { type HostLookup, lookupOf } from "./host-lookup.ts";
import { runBounds } from "./run-bounds.ts";
import { appUnreachable, type RemoteBackend } from "./runner.ts";

/**
 * Opens a connection to the server of an app, with TLS if a run has it, and closes it again. Sends
 * nothing of a run. Refuses with APP_UNREACHABLE where a run would get no connection either.
 */
export async function reachBackend(backend: RemoteBackend, hosts: HostLookup): Promise<void> {
  const { protocol, hostname, port } = serverOf(backend);
  const connect = buildConnector({
    lookup: lookupOf(hosts),
    timeout: runBounds.backendConnectMsMax,
    allowH2: backend.kind === "grpc",
    ...(protocol === "https:" && { secureContext: trustedRoots() }),
  });
  try {
    const socket = await promisify(connect)({ protocol, hostname, port });
    // What a server says to a connection that is closed at once does not matter.
    socket?.on("error", () => {}).destroy();
  } catch (thrown) {
    throw appUnreachable(innermostCause(thrown));
  }
}

function serverOf(backend: RemoteBackend) {
  const isTls = backend.kind === "http" ? backend.url.startsWith("https:") : backend.tls;
  const protocol = isTls ? "https:" : "http:";
  const { hostname, port } = new URL(
    backend.kind === "http" ? backend.url : `${protocol}//${backend.target}`,
  );
  return { protocol, hostname: hostname.replace(/^\[|\]$/g, ""), port: port || (isTls ? "443" : "80") };
}
