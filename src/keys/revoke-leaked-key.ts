import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { type KeyEvidence, type KeyVerdict, unguarded } from "../auth/key-evidence.ts";
import { leakBounds } from "../auth/policy.ts";
import type { Call, ServiceMethods } from "../auth/principal.ts";
import type { Clock } from "../base/clock.ts";
import type { ChangeSecurityState, FlooredChange } from "../fleet/security-state.ts";
import { createSemaphore } from "../limit/semaphore.ts";
import { fail, Refusal } from "../refusal/refusal.ts";
import type { KeyRecord } from "./key-store.ts";
import { type KeyForm, redactKeyValue } from "./key-value.ts";
import { type Keyring, leakReport } from "./keyring.ts";
import type { ServiceSecrets } from "./service-secrets.ts";
import { createKeyVerifier } from "./verify-key.ts";

export interface RevokeLeakedKeyParts {
  readonly clock: Pick<Clock, "unixMs">;
  readonly form: KeyForm;
  readonly secrets: ServiceSecrets;
  /** Reads the key from the store: a cache may say that it does not exist. */
  readonly readKey: (keyId: string) => Promise<KeyEvidence | undefined>;
  readonly revoke: Keyring["revoke"];
  readonly changeSecurityState: ChangeSecurityState<"key", FlooredChange<KeyEvidence>>;
  /** Called once the revocation is final, not for a key that was revoked before. */
  readonly onRevoked: (key: KeyRecord) => void;
}

type RevokeLeakedKey = ServiceMethods<typeof KeyService>["revokeLeakedKey"];
type ProvenVerdict = Exclude<KeyVerdict, { kind: "invalid" }>;
type RevokedVerdict = Extract<KeyVerdict, { kind: "revoked" }>;

/**
 * `KeyService.RevokeLeakedKey`: a caller who has the whole value may end it. A value that is no
 * key's is refused in the same words and after the same work, whether its id exists or not. Each
 * report reads the store, and is charged to an unknown caller's address unless the key is valid.
 * Reports of one key that come together are one revocation. A repeat changes no key, and once this
 * instance has told the fleet of the revocation, it does nothing but the look-up.
 */
export function createRevokeLeakedKey(parts: RevokeLeakedKeyParts): RevokeLeakedKey {
  const { clock, form, secrets, readKey } = parts;
  const verifier = createKeyVerifier({
    clock,
    form,
    secrets,
    evidence: { peek: () => undefined, load: readKey },
  });
  const semaphore = createSemaphore({
    slots: () => leakBounds.reportsAtOnceMax,
    waitMsMax: leakBounds.reportWaitMsMax,
    waiters: { size: 0, sizeMax: leakBounds.reportsWaitingMax },
  });
  /** The revocations that are under way, by key. */
  const running = new Map<string, Promise<number>>();
  /** The revocations that every instance knows, the oldest first. */
  const told = new Set<string>();

  function keepTold(keyId: string): void {
    told.add(keyId);
    for (const oldest of told) {
      if (told.size <= leakBounds.toldKeysMax) return;
      told.delete(oldest);
    }
  }

  /** Whether every instance knows of the revocation: it was told, or is older than any cache. */
  function isKnown({ keyId, revokeTimeMs: revokedMs }: RevokedVerdict): boolean {
    return told.has(keyId) || clock.unixMs() - revokedMs > leakBounds.revocationKnownMs;
  }

  async function revokeAndTell(verdict: ProvenVerdict): Promise<number> {
    const revokedMs = await revokeTimeMs(parts, verdict);
    keepTold(verdict.keyId);
    return revokedMs;
  }

  function revokeOnce(verdict: ProvenVerdict): Promise<number> {
    if (verdict.kind === "revoked" && isKnown(verdict)) return Promise.resolve(verdict.revokeTimeMs);
    const begun = running.get(verdict.keyId);
    if (begun) return begun;
    const started = semaphore.run(() => revokeAndTell(verdict)).finally(() => running.delete(verdict.keyId));
    running.set(verdict.keyId, started);
    return started;
  }

  return async ({ value }, { principal, http, subject }) => {
    if (!form.isWhole(value)) throw noKeyForm(value);
    const { address, guard } =
      principal.kind === "anyone" ? principal : ({ address: "", guard: unguarded } as const);
    const verdict =
      verifier.peek(value) ??
      (await verifier.load(value, { address }, (of, lookUp) => guard(of, () => semaphore.run(lookUp))));
    if (verdict.kind === "invalid") throw unknownKey();
    noteKey(http, verdict);
    subject.teamId = verdict.teamId;
    subject.target = verdict.keyId;
    const revokedMs = await revokeOnce(verdict);
    return { redactedValue: redactKeyValue(value), revokeTime: timestampFromMs(revokedMs) };
  };
}

/** Resolves once no instance accepts the key. */
async function revokeTimeMs(parts: RevokeLeakedKeyParts, verdict: ProvenVerdict): Promise<number> {
  const { keyId, teamId } = verdict;
  if (verdict.kind === "revoked") {
    await tellAgain(parts, verdict);
    return verdict.revokeTimeMs;
  }
  const key = await parts.revoke({ teamId, keyId, by: leakReport }).catch(asUnknown);
  parts.onRevoked(key);
  return key.revokeTimeMs ?? parts.clock.unixMs();
}

/**
 * The instance that revoked the key may have ended before all others knew. So a revocation that
 * they may not know yet is told again. The key itself is not written.
 */
async function tellAgain(
  { changeSecurityState, readKey }: RevokeLeakedKeyParts,
  { keyId }: RevokedVerdict,
): Promise<void> {
  await changeSecurityState(
    "key",
    () => readKey(keyId),
    (key) => key && { id: keyId, version: key.version, teamId: key.teamId, value: key },
  );
}

/** The key was deleted with its team after it was looked up. */
function asUnknown(thrown: unknown): never {
  throw thrown instanceof Refusal && thrown.reason === "KEY_NOT_FOUND" ? unknownKey() : thrown;
}

function noteKey({ notes }: Call["http"], { keyId, teamId }: ProvenVerdict): void {
  if (!notes) return;
  notes.keyId = keyId;
  notes.teamId = teamId;
}

/** Never repeats the value: it may be a key with a character too many. */
function noKeyForm(value: string): Refusal {
  const problem =
    value === ""
      ? "value is required: the whole key."
      : "value does not have the form of a key of this service. Check that it was copied whole, with nothing around it.";
  return fail("INVALID_ARGUMENT", { param: "value", problem });
}

function unknownKey(): Refusal {
  return fail("KEY_NOT_FOUND", { param: "value", problem: "There is no key with this value." });
}
