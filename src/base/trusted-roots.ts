/** Whom TLS trusts: one set of authorities for every server that Keyrun connects to. */

import {
  createSecureContext,
  getCACertificates,
  type SecureContext,
  setDefaultCACertificates,
} from "node:tls";

/**
 * Makes this process trust Node's authorities, with those of `NODE_EXTRA_CA_CERTS`, and the
 * system's, which usually include the operator's own, with those of `SSL_CERT_FILE`. They count for
 * each later connection that names no authorities of its own, of any library. The first call takes
 * some hundred milliseconds, so it is made before the first connection with TLS and not at a start.
 */
export function trustSystemRoots(): void {
  if (isDone) return;
  isDone = true;
  setDefaultCACertificates([...new Set([...getCACertificates("default"), ...getCACertificates("system")])]);
}

/** Of the process, as the authorities are. */
let isDone = false;

/** The same authorities for a library that takes them as a context. That is made once. */
export function trustedRoots(): SecureContext {
  trustSystemRoots();
  context ??= createSecureContext();
  return context;
}

let context: SecureContext | undefined;
