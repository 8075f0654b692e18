import type { Log } from "../log/log.ts";
import type { Report } from "../server/transport-event.ts";

/**
 * Writes events of connections to the log. Events that any stranger can cause are `debug`, so that
 * they can't fill the disk.
 */
export function createTransportLog(log: Log): Report {
  return (event) => {
    if (event.kind === "untrusted_forwarded_for") log.warn(event, untrustedWords);
    else if (event.kind === "listener_failed") log.error(event, event.kind);
    else log.debug(event, event.kind);
  };
}

const untrustedWords =
  "X-Forwarded-For arrives, but no proxy is trusted, so all callers behind it count as one address. " +
  "Set KEYRUN_TRUST_PROXY to the number of proxies in front of Keyrun.";
