import { connect } from "node:net";
import { createServer, type TlsOptions } from "node:tls";

export interface TlsProxy {
  readonly port: number;
  close(): void;
}

/** A proxy on loopback that ends TLS in front of a server which speaks none. */
export async function openTlsProxy(
  target: { readonly host: string; readonly port: number },
  identity: Pick<TlsOptions, "cert" | "key">,
): Promise<TlsProxy> {
  const sockets = new Set<{ destroy(): unknown }>();
  const server = createServer(identity, (near) => {
    const far = connect(target);
    sockets.add(near).add(far);
    near.on("error", () => far.destroy()).on("close", () => far.destroy());
    far.on("error", () => near.destroy()).on("close", () => near.destroy());
    near.pipe(far).pipe(near);
  });
  server.on("tlsClientError", () => {});
  await new Promise<void>((bound) => server.listen(0, "127.0.0.1", bound));
  const { port } = server.address() as { port: number };
  return {
    port,
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

/** The first server of a MongoDB URI. */
export function targetOf(uri: string): { host: string; port: number } {
  const [, host = "", port = ""] = /^mongodb:\/\/([^:/,]+):(\d+)/.exec(uri) ?? [];
  return { host, port: Number(port) };
}
