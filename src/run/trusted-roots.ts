import { createSecureContext, getCACertificates, type SecureContext } from "node:tls";

/**
 * Returns the certificate authorities that backends with TLS are verified against: the system's,
 * which usually include the operator's own, and Node's, with those of `NODE_EXTRA_CA_CERTS`. It
 * takes tens of milliseconds, so each kind of backend makes it once, on first use. With the option
 * `ca` Node would do this work again for every connection.
 */
export function trustedRoots(): SecureContext {
  return createSecureContext({
    ca: [...new Set([...getCACertificates("default"), ...getCACertificates("system")])],
  });
}
