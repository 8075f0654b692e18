/** Hosts and ports as settings, URLs and gRPC targets write them. */

import { isIP } from "node:net";

/** The address of a listener. An IPv6 host has no brackets. */
export interface HostAndPort {
  readonly host: string;
  readonly port: number;
}

/** `host:port` as in URLs and gRPC targets: with brackets around an IPv6 host. */
export function writeHostAndPort({ host, port }: HostAndPort): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Reads what `writeHostAndPort` wrote. The text must hold a colon before the port. */
export function readHostAndPort(text: string): HostAndPort {
  const colon = text.lastIndexOf(":");
  return { host: withoutBrackets(text.slice(0, colon)), port: Number(text.slice(colon + 1)) };
}

/**
 * What Node's `listen` takes. Without a host it listens on `::`, which takes IPv4, too, and where
 * the machine has no IPv6, on `0.0.0.0`.
 */
export function listenOptions({ host, port }: HostAndPort): { host?: string; port: number } {
  return host === "::" ? { port } : { host, port };
}

/** Whether a host, as in settings and URLs, is loopback: traffic never leaves this machine. */
export function isLoopbackHost(host: string): boolean {
  const name = withoutBrackets(host);
  return name === "localhost" || name === "::1" || (isIP(name) === 4 && name.startsWith("127."));
}

function withoutBrackets(host: string): string {
  return host.replace(/^\[(.*)\]$/, "$1");
}
