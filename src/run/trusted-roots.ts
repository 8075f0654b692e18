import { createSecureContext, getCACertificates, type SecureContext } from "node:tls";

/**
 * What backends behind TLS are verified against: the system's authorities, where an operator's own usually are,
 * and Node's, which `NODE_EXTRA_CA_CERTS` adds to. It takes some tens of milliseconds to make, so it is made once
 * for all connections of a kind, when the first needs it: given as `ca`, it would be made for each of them.
 */
export function trustedRoots(): SecureContext {
  return createSecureContext({
    ca: [...new Set([...getCACertificates("default"), ...getCACertificates("system")])],
  });
}
