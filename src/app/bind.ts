import { StartRefused } from "../error.ts";
import type { BoundAddress, Listener } from "../server/listener.ts";

/** The settings that an address came from. */
export interface AddressSettings {
  readonly host: string;
  readonly port: string;
}

/** Binds the listener and answers with where it is. Throws StartRefused, naming the setting at fault, where it can't. */
export async function bind(
  listener: Pick<Listener, "listen">,
  at: BoundAddress,
  settings: AddressSettings,
): Promise<BoundAddress> {
  try {
    return await listener.listen(at);
  } catch (cause) {
    const why = cause instanceof Error && "code" in cause ? String(cause.code) : "unknown";
    const words = why === "EADDRINUSE" ? "is already in use" : `can't be bound (${why})`;
    const port = portAdvice.get(why);
    const advice =
      port === undefined
        ? `set ${settings.host} to an address of this machine, such as 127.0.0.1`
        : `set ${settings.port} to ${port}, or to 0 for any`;
    throw new StartRefused(`${hostAndPort(at)} ${words}: ${advice}.`, { cause });
  }
}

/** The faults of a port. All others are the host's: unknown, of another machine, or of no kind that is here. */
const portAdvice: ReadonlyMap<string, string> = new Map([
  ["EADDRINUSE", "a free port"],
  ["EACCES", "a port that this user may bind"],
]);

/** `host:port` as URLs and gRPC targets write it: IPv6 in brackets. */
export function hostAndPort({ host, port }: BoundAddress): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}
