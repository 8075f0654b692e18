import type { KeyRestrictions } from "../auth/key-restrictions.ts";
import { actorOf, type Principal } from "../auth/principal.ts";
import type { Clock } from "../base/clock.ts";
import type { RandomBytes } from "../base/random-bytes.ts";
import type { KeyRecord } from "./key-store.ts";
import { type KeyForm, redactKeyValue } from "./key-value.ts";
import type { ServiceSecrets } from "./service-secrets.ts";

export interface NewKeyParts {
  readonly clock: Pick<Clock, "unixMs">;
  readonly form: KeyForm;
  readonly secrets: ServiceSecrets;
  readonly randomBytes: RandomBytes;
}

/** What a new key is to be. */
export interface NewKeyOrder {
  readonly teamId: string;
  readonly label: string;
  readonly requestId: string | null;
  /** Null: it does not expire. */
  readonly expireTimeMs: number | null;
  readonly by: Principal;
  /** Null: the key may do all that its team may. */
  readonly restrictions: KeyRestrictions | null;
}

/** A key that is not stored yet, and the only copy of its full value. */
export interface MintedKey {
  readonly key: KeyRecord;
  readonly value: string;
}

export function mintKey({ clock, form, secrets, randomBytes }: NewKeyParts, order: NewKeyOrder): MintedKey {
  const { id, value } = form.mint(randomBytes);
  const key: KeyRecord = {
    id,
    teamId: order.teamId,
    label: order.label,
    redactedValue: redactKeyValue(value),
    digest: secrets.digestNewest(value).toString("base64url"),
    secretVersion: secrets.newestVersion,
    requestId: order.requestId,
    createTimeMs: clock.unixMs(),
    createdBy: actorOf(order.by),
    lastUseTimeMs: null,
    revokeTimeMs: null,
    revokedBy: null,
    expireTimeMs: order.expireTimeMs,
    expiredTimeMs: null,
    replacesKeyId: null,
    replacedByKeyId: null,
    firstKeyId: null,
    pendingSinceMs: null,
    appIds: order.restrictions?.appIds ?? [],
    requestsPerMinute: order.restrictions?.requestsPerMinute ?? null,
    version: 1,
  };
  return { key, value };
}
