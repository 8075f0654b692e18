import { promisify } from "node:util";
import { buildConnector } from "undici";
import { innermostCause } from "../base/innermost-cause.ts";
import { trustedRoots } from "../base/trusted-roots.ts";
import { readHostAndPort } from "../settings/host.ts";
import { type HostLookup, lookupOf } from "./host-lookup.ts";
import { runBounds } from "./run-bounds.ts";
import { appUnreachable, type RemoteBackend } from "./runner.ts";

/**
 * Opens a connection to the server of an app, with TLS if a run has it, and closes it again. Sends
 * nothing of a run. Refuses with APP_UNREACHABLE where a run would get no connection either.
 */
export async function reachBackend(backend: RemoteBackend, hosts: HostLookup): Promise<void> {
  const server = serverOf(backend);
  const connect = buildConnector({
    lookup: lookupOf(hosts),
    timeout: runBounds.backendConnectMsMax,
    allowH2: backend.kind === "grpc",
    ...(server.protocol === "https:" && { secureContext: trustedRoots() }),
  });
  try {
    const socket = await promisify(connect)(server);
    // What a server says to a connection that is closed at once does not matter.
    socket?.on("error", () => {}).destroy();
  } catch (thrown) {
    throw appUnreachable(innermostCause(thrown));
  }
}

/** In the form of undici, which names a `host` that is no address in the handshake of TLS. */
function serverOf(backend: RemoteBackend): buildConnector.Options {
  if (backend.kind === "grpc") {
    // A target is no part of a URL: not every name that it may have is a host to `URL`.
    const { host: hostname, port } = readHostAndPort(backend.target);
    return { protocol: backend.tls ? "https:" : "http:", host: backend.target, hostname, port: String(port) };
  }
  const { protocol, host, hostname, port } = new URL(backend.url);
  const usualPort = protocol === "https:" ? "443" : "80";
  return { protocol, host, hostname: hostname.replace(/^\[|\]$/g, ""), port: port || usualPort };
}
