/**
 * What connections to all kinds of backends share: how a host is found, in the form that HTTP and
 * gRPC each take.
 */

import { isIP, type LookupFunction } from "node:net";
import { type ChannelOptions, experimental, status } from "@grpc/grpc-js";
import type { Clock, Timers } from "../base/clock.ts";
import { innermostCause } from "../base/innermost-cause.ts";
import { unlessAborted } from "../http/handler.ts";
import type { HostAddress, ResolvedHost, ResolveHost } from "./resolve-host.ts";
import { runBounds } from "./run-bounds.ts";

/** Finds the addresses of backends. */
export interface HostLookup {
  /**
   * The addresses of a host name or of an address itself, at least one. Rejects if there are none,
   * if `hostLookupMsMax` passes, or if too many other names are being looked up.
   */
  find(host: string): Promise<readonly HostAddress[]>;
  /** Ends all look-ups. They reject. */
  close(): void;
}

/**
 * Wraps `resolve`: look-ups of one name are joined, different names are bounded, and what was found
 * is kept for as long as its source says, otherwise for `keptHostMs`. A failure is not kept.
 */
export function createHostLookup(parts: { clock: Clock; timers: Timers; resolve: ResolveHost }): HostLookup {
  const { clock, timers, resolve } = parts;
  const kept = new Map<string, { addresses: readonly HostAddress[]; untilMs: number }>();
  const pending = new Map<string, { found: Promise<readonly HostAddress[]>; end: AbortController }>();

  function keep(host: string, { addresses, keptMs = runBounds.keptHostMs }: ResolvedHost) {
    kept.delete(host);
    const [oldest] = kept.keys();
    if (kept.size >= runBounds.keptHostsMax && oldest !== undefined) kept.delete(oldest);
    kept.set(host, { addresses, untilMs: clock.monotonicMs() + Math.min(keptMs, runBounds.keptHostMsMax) });
  }

  async function look(host: string, end: AbortController): Promise<readonly HostAddress[]> {
    const late = new Error(`No name server answered within ${runBounds.hostLookupMsMax} ms.`);
    const timer = timers.after(runBounds.hostLookupMsMax, () => end.abort(late));
    try {
      const resolved = await unlessAborted(resolve(host, end.signal), end.signal);
      keep(host, resolved);
      return resolved.addresses;
    } finally {
      timer.cancel();
      pending.delete(host);
    }
  }

  async function find(host: string): Promise<readonly HostAddress[]> {
    const family = isIP(host);
    if (family !== 0) return [{ address: host, family }];
    const known = kept.get(host);
    if (known && clock.monotonicMs() < known.untilMs) return known.addresses;
    const joined = pending.get(host);
    if (joined) return joined.found;
    if (pending.size >= runBounds.hostLookupsMax) throw new Error("Too many names are being looked up.");
    const end = new AbortController();
    const found = look(host, end);
    pending.set(host, { found, end });
    return found;
  }

  return {
    find,
    close() {
      for (const { end } of pending.values()) end.abort(new Error("Keyrun stops."));
    },
  };
}

/** The look-up in the form in which `node:net` takes it. */
export function lookupOf({ find }: Pick<HostLookup, "find">): LookupFunction {
  return (host, options, callback) => {
    find(host).then(
      (addresses) => {
        const [first] = addresses;
        if (options.all) callback(null, [...addresses]);
        else callback(null, first?.address ?? "", first?.family);
      },
      (error) => callback(error, []),
    );
  };
}

/** The scheme of targets whose host is found by our own look-up. */
export const hostScheme = "keyrun-host";

/** The channel option with the `HostLookup`. */
export const hostLookupOption = "keyrun.host_lookup";

/**
 * Registers the scheme with gRPC. Its own resolver for `dns:` calls `getaddrinfo`, once for each
 * channel, and can't be given another look-up.
 */
export function registerHostScheme(): void {
  experimental.registerResolver(hostScheme, HostResolver);
}

/**
 * Tells a channel the addresses of its target: when it connects, and again when it asks, which it
 * does after a connection was lost, but not more often than each `backendReconnectMsMax`.
 */
class HostResolver implements experimental.Resolver {
  readonly #listener: experimental.ResolverListener;
  readonly #lookup: HostLookup;
  readonly #target: experimental.HostPort;
  /** The look-up under way. The result of any other is dropped. */
  #current: object | undefined;
  #pause: NodeJS.Timeout | undefined;
  #isWanted = false;

  constructor(
    target: experimental.GrpcUri,
    listener: experimental.ResolverListener,
    options: ChannelOptions,
  ) {
    const hostAndPort = experimental.splitHostPort(target.path);
    if (hostAndPort === null) throw new Error("The target is not HOST:PORT.");
    this.#target = hostAndPort;
    this.#listener = listener;
    this.#lookup = options[hostLookupOption];
  }

  /** The name that the server's certificate must have, and that it gets as `:authority`. */
  static getDefaultAuthority(target: experimental.GrpcUri): string {
    return target.path;
  }

  updateResolution(): void {
    this.#isWanted = true;
    if (this.#current === undefined && this.#pause === undefined) this.#look();
  }

  destroy(): void {
    clearTimeout(this.#pause);
    this.#pause = undefined;
    this.#current = undefined;
    this.#isWanted = false;
  }

  #look(): void {
    this.#isWanted = false;
    this.#pause = setTimeout(() => this.#resume(), runBounds.backendReconnectMsMax).unref();
    const look = {};
    this.#current = look;
    const { host, port = 0 } = this.#target;
    const answer = (result: Parameters<experimental.ResolverListener>[0]) => {
      if (this.#current !== look) return;
      this.#current = undefined;
      this.#listener(result, {}, null, "");
    };
    this.#lookup.find(host).then(
      (found) => {
        const endpoints = found.map(({ address }) => ({ addresses: [{ host: address, port }] }));
        answer(experimental.statusOrFromValue(endpoints));
      },
      (error) => {
        answer(experimental.statusOrFromError({ code: status.UNAVAILABLE, details: innermostCause(error) }));
      },
    );
  }

  #resume(): void {
    this.#pause = undefined;
    if (this.#isWanted && this.#current === undefined) this.#look();
  }
}
