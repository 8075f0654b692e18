/** A start: open, wire, serve; and the way back when Keyrun stops. */

import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { bounds } from "../bounds.ts";
import { cutText, Refusal, unavailable } from "../refusal/refusal.ts";
import { StartRefused } from "../refusal/start-refused.ts";
import { drain } from "../server/drain.ts";
import type { Config } from "../settings/config.ts";
import type { HostAndPort } from "../settings/host.ts";
import { noteStart } from "./audit.ts";
import { addressSettings, bind, requireFreePorts, writeAddressFile } from "./bind.ts";
import { type AppParts, type Closer, type Opened, open, type Start } from "./open.ts";
import { screenNotice } from "./public-handler.ts";
import { type Wired, wire } from "./wire.ts";

/** Keyrun, running. */
export interface App {
  readonly publicAddress: HostAndPort;
  readonly internalAddress: HostAndPort;
  /**
   * Drains and stops. A request that ends within the drain does not fail. A second call returns the
   * same promise.
   */
  close(): Promise<void>;
}

/**
 * The composition root: settings become stores, services and listeners, in three steps. Throws
 * StartRefused, with words for the operator, if it would be unsafe to go on. Then nothing stays
 * open. Where the store fails meanwhile, it begins anew, for `storeStartMsMax`.
 */
export async function startApp(config: Config, parts: AppParts): Promise<App> {
  const { clock, log, signal } = parts;
  // A first start that is refused for a port leaves no folder. Later ones open the store first:
  // that another Keyrun has it says more than its port.
  if (!existsSync(config.dataDir)) await requireFreePorts(config);
  const untilMs = clock.monotonicMs() + bounds.storeStartMsMax;
  for (;;) {
    const closers: Closer[] = [];
    const start = { config, parts, closers };
    try {
      const opened = await open(start);
      return await serve(start, opened, await wire(start, opened));
    } catch (thrown) {
      await closeInReverse(closers);
      if (!(thrown instanceof Refusal) || !storeReasons.includes(thrown.reason)) throw thrown;
      const isPassing = thrown.reason === "UNAVAILABLE" && clock.monotonicMs() < untilMs;
      if (!isPassing || signal?.aborted) throw storeRefused(thrown, parts);
      log.warn({ cause: thrown.cause }, "the store failed during the start: it is tried again");
      await sleep(bounds.storeStartPauseMs, undefined, { signal }).catch(() => {});
    }
  }
}

/** A store that opens may fail at the first write, as on a full disk. */
function storeRefused({ message, cause }: Refusal, { redact = (text) => text }: AppParts): StartRefused {
  const why =
    cause instanceof Error ? ` (${cutText(redact(cause.message), bounds.refusalMessageBytesMax)})` : "";
  return new StartRefused(`The store failed during the start${why}. ${message}`, { cause });
}

const storeReasons: readonly string[] = ["STORE_FULL", "UNAVAILABLE"];

async function closeInReverse(closers: readonly Closer[]): Promise<void> {
  for (const close of closers.toReversed()) await close();
}

/** Step 3: binds the listeners, says where they are, and turns ready. */
async function serve(start: Start, opened: Opened, wired: Wired): Promise<App> {
  const { config, parts, closers } = start;
  const { signIn, running, storeReadiness } = wired;
  const { audit, load, screenFiles, teamId, secrets, serviceToken, stores } = opened;
  const { publicAddress, internalAddress } = await bindBoth(start, wired);
  for (const each of [...running, audit]) each.start();
  parts.announce({ publicAddress, internalAddress, teamId, screen: screenNotice(signIn, screenFiles) });
  const noted = { config, internalAddress, secrets, serviceToken, store: stores.audit, log: parts.log };
  closers.push(load.watch(), storeReadiness.begin(), noteStart(audit, noted));

  let closing: Promise<void> | undefined;
  const close = async () => {
    await drainAll(start, wired);
    await closeInReverse(closers);
  };
  return {
    publicAddress,
    internalAddress,
    close: () => {
      closing ??= close();
      return closing;
    },
  };
}

async function bindBoth({ config, parts, closers }: Start, wired: Wired) {
  const { signIn, publicListener, internalListener } = wired;
  const publicAddress = await bind(
    publicListener,
    { host: config.host, port: config.port },
    addressSettings.public,
  );
  signIn.bound(publicAddress);
  const internalAddress = await bind(
    internalListener,
    { host: config.grpcHost, port: config.grpcPort },
    addressSettings.internal,
  );
  closers.push(await writeAddressFile(config.dataDir, internalAddress, parts.log));
  return { publicAddress, internalAddress };
}

async function drainAll({ config, parts }: Start, wired: Wired): Promise<void> {
  const { storeReadiness, drainables, requests } = wired;
  const { aborted } = await drain({
    markUnready: () => storeReadiness.readiness.set(false, "draining"),
    drainables,
    requests,
    delayMs: config.drainDelayMs,
    msMax: config.drainMsMax,
    portClosedMs: bounds.drainPortClosedMs,
    abortGraceMs: bounds.abortGraceMs,
    abortReason: () => unavailable({ mayHaveRun: true }),
  });
  if (aborted > 0) parts.log.warn({ aborted }, "requests were still running at the end of the drain");
}
