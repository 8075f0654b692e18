import { type ChannelOptions, experimental, status } from "@grpc/grpc-js";
import { nameOfFailure } from "./backend-runner.ts";
import type { HostLookup } from "./host-lookup.ts";
import { runBounds } from "./run-bounds.ts";

/** The scheme of targets whose host is found by our own look-up. */
export const hostScheme = "keyrun-host";

/** The channel option that holds the `HostLookup`. */
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
        answer(experimental.statusOrFromError({ code: status.UNAVAILABLE, details: nameOfFailure(error) }));
      },
    );
  }

  #resume(): void {
    this.#pause = undefined;
    if (this.#isWanted && this.#current === undefined) this.#look();
  }
}
