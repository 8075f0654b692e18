/** What a start and a stop write into the audit log. */

import { createHash } from "node:crypto";
import { type AuditLog, byKeyrun } from "../audit/audit-log.ts";
import { type AuditStore, auditBounds } from "../audit/audit-store.ts";
import type { ServiceSecrets } from "../keys/service-secrets.ts";
import type { Log } from "../log/log.ts";
import type { Config } from "../settings/config.ts";
import { type HostAndPort, writeHostAndPort } from "../settings/host.ts";

/**
 * Writes down that this instance has started, and which secrets are others than at the last start.
 * Returns the function that writes down its stop. A store that is full or does not answer delays
 * no start: the start itself is then written later, and changed secrets with the next one.
 */
export function noteStart(
  audit: AuditLog,
  parts: {
    readonly config: Config;
    readonly internalAddress: HostAndPort;
    readonly secrets: ServiceSecrets;
    readonly serviceToken: string;
    readonly store: Pick<AuditStore, "list">;
    readonly log: Log;
  },
): () => Promise<void> {
  const { config, internalAddress, secrets, serviceToken, store, log } = parts;
  const target = config.advertiseAddress ?? writeHostAndPort(internalAddress);
  audit.happened(byKeyrun("instance.start", { target }));
  const versions = {
    "service secrets": secrets.versions.join(", "),
    "service token": versionOfToken(serviceToken),
  };
  const noting = noteSecrets(audit, store, versions).catch((err) =>
    log.warn({ err }, "whether a secret was changed could not be found out; the next start tries again"),
  );
  return async () => {
    await noting;
    audit.happened(byKeyrun("instance.stop", { target }));
  };
}

/** The last event of each kind says what was in force. The first start writes one of each. */
async function noteSecrets(
  audit: AuditLog,
  store: Pick<AuditStore, "list">,
  now: Readonly<Record<string, string>>,
): Promise<void> {
  const action = "secret.change";
  const known = await store.list({ action, limit: auditBounds.secretEventsMax });
  for (const [kind, versions] of Object.entries(now)) {
    const target = `${kind} ${versions}`;
    const last = known.find((event) => event.target.startsWith(`${kind} `));
    if (last?.target !== target) audit.happened(byKeyrun(action, { target }));
  }
}

/** As the version of a service secret: it names the token and reveals nothing of it. */
function versionOfToken(token: string): string {
  return createHash("sha256").update("keyrun-service-token-version:").update(token).digest("hex").slice(0, 8);
}
