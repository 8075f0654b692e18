import { StartRefused } from "../refusal/start-refused.ts";
import type { Listener } from "../server/listener.ts";
import { type HostAndPort, writeHostAndPort } from "../settings/host.ts";

/** The names of the settings that an address comes from. */
export interface AddressSettings {
  readonly host: string;
  readonly port: string;
}

/**
 * Binds the listener and returns its address. If that fails, throws StartRefused, which names the
 * setting at fault.
 */
export async function bind(
  listener: Pick<Listener, "listen">,
  at: HostAndPort,
  settings: AddressSettings,
): Promise<HostAndPort> {
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
    throw new StartRefused(`${writeHostAndPort(at)} ${words}: ${advice}.`, { cause });
  }
}

/**
 * The errors that a port causes. All others are caused by the host: it is unknown, belongs to
 * another machine, or has a kind of address that this machine does not have.
 */
const portAdvice: ReadonlyMap<string, string> = new Map([
  ["EADDRINUSE", "a free port"],
  ["EACCES", "a port that this user may bind"],
]);
