import { isIP } from "node:net";

/** Whether a host, as settings and URLs write it, is this machine alone: then plain HTTP leaves it never. */
export function isLoopbackHost(host: string): boolean {
  const name = host.replace(/^\[(.*)\]$/, "$1");
  return name === "localhost" || name === "::1" || (isIP(name) === 4 && name.startsWith("127."));
}
