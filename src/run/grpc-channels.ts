/**
 * The connections to gRPC apps, and what the library lacks: to close a channel with its unfinished
 * connections.
 */

import { isIP, type Socket } from "node:net";
import { checkServerIdentity, type SecureContext } from "node:tls";
import {
  type CallCredentials,
  ChannelCredentials,
  Client,
  type ClientOptions,
  connectivityState,
  credentials,
  type experimental,
} from "@grpc/grpc-js";
import { trustedRoots } from "../base/trusted-roots.ts";
import { readHostAndPort } from "../settings/host.ts";
import { type HostLookup, hostLookupOption, hostScheme, registerHostScheme } from "./host-lookup.ts";
import { runBounds } from "./run-bounds.ts";

/**
 * Keeps one gRPC channel for each target and kind of connection. The bound on runs also bounds the
 * channels in use. Of the unused ones, the `idleChannelsMax` used last are kept, and gRPC closes
 * their connections when they have been idle for some time.
 */
export function createGrpcChannels(
  hosts: HostLookup,
  {
    outputBytesMax,
    idleChannelsMax = runBounds.backendIdleChannelsMax,
  }: { outputBytesMax: number; idleChannelsMax?: number },
) {
  registerHostScheme();
  const clientOptions = channelOptions(outputBytesMax, hosts);
  // The map is in order of use: the first channel is the one used longest ago.
  const channels = new Map<string, Channel>();

  function openChannel(target: string, tls: boolean): Channel {
    if (!tls) return new Channel(target, credentials.createInsecure(), clientOptions);
    const { host } = readHostAndPort(target);
    const roots = trustedRoots();
    if (isIP(host) === 0)
      return new Channel(target, credentials.createFromSecureContext(roots), clientOptions);
    return new Channel(target, credentialsOfAddress(host, roots), {
      ...clientOptions,
      "grpc.ssl_target_name_override": nameOfAddresses,
    });
  }

  function closeUnused(): void {
    const unused = [...channels].filter(([, channel]) => channel.runs === 0);
    for (const [key, channel] of unused.slice(0, Math.max(0, unused.length - idleChannelsMax))) {
      channels.delete(key);
      channel.close();
    }
  }

  return {
    /**
     * Returns the channel to the target, shared with other runs. It connects when it is first used.
     */
    acquire({ target, tls }: { target: string; tls: boolean }): ChannelLease {
      const key = `${tls ? "tls" : "plaintext"} ${target}`;
      const channel = channels.get(key) ?? openChannel(target, tls);
      channels.delete(key);
      channels.set(key, channel);
      channel.runs += 1;
      return {
        client: channel.client,
        connections: () => channel.connections,
        retire() {
          if (channels.get(key) === channel) channels.delete(key);
        },
        release() {
          channel.runs -= 1;
          if (channel.runs > 0) return;
          if (channels.get(key) !== channel) channel.close();
          else if (channels.size > idleChannelsMax) closeUnused();
        },
      };
    },
    /** Closes all channels. Call it only when none is in use. */
    close(): void {
      for (const channel of channels.values()) channel.close();
      channels.clear();
    },
  };
}

/** The use of a channel by one run. */
export interface ChannelLease {
  readonly client: Client;
  /** How many connections the channel has made so far. */
  connections(): number;
  /** Makes this the last run on the channel. The next run gets a new connection. */
  retire(): void;
  /** Call it once, when the run is over. */
  release(): void;
}

class Channel {
  readonly client: Client;
  runs = 0;
  connections = 0;
  readonly #security: ClosableCredentials;

  constructor(target: string, security: ChannelCredentials, clientOptions: ClientOptions) {
    this.#security = new ClosableCredentials(security);
    // The scheme must be written. Otherwise a host named "unix" or "ipv4" would be read as one.
    this.client = new Client(`${hostScheme}:${target}`, this.#security, clientOptions);
    this.#countConnections();
  }

  close(): void {
    const isReady = this.client.getChannel().getConnectivityState(false) === connectivityState.READY;
    this.client.close();
    this.#security.close({ destroy: !isReady });
  }

  /** Waits for the next state of the channel, again and again until it is closed. */
  #countConnections(): void {
    const channel = this.client.getChannel();
    const state = channel.getConnectivityState(false);
    if (state === connectivityState.SHUTDOWN) return;
    if (state === connectivityState.READY) this.connections += 1;
    channel.watchConnectivityState(state, Number.POSITIVE_INFINITY, () => this.#countConnections());
  }
}

function channelOptions(outputBytesMax: number, hosts: HostLookup): ClientOptions {
  return {
    [hostLookupOption]: hosts,
    // A run is never repeated.
    "grpc.enable_retries": 0,
    // Only the app's record decides where a run goes, so proxies from the environment are ignored.
    "grpc.enable_http_proxy": 0,
    "grpc.max_receive_message_length": outputBytesMax + messageOverheadBytes,
    "grpc.client_idle_timeout_ms": runBounds.backendChannelIdleMs,
    "grpc.keepalive_time_ms": runBounds.backendPingMs,
    "grpc.keepalive_timeout_ms": runBounds.backendPingAnswerMsMax,
    "grpc.keepalive_permit_without_calls": 0,
    "grpc.initial_reconnect_backoff_ms": Math.min(100, runBounds.backendReconnectMsMax),
    "grpc.max_reconnect_backoff_ms": runBounds.backendReconnectMsMax,
    // Without the global pool, closing a channel also closes its connection.
    "grpc.use_local_subchannel_pool": 1,
    "grpc.enable_channelz": 0,
  };
}

/** Tag and length of `RunResponse.text`: one byte, and a varint of at most five. */
const messageOverheadBytes = 6;

/**
 * Wraps the credentials of one channel, so that its unfinished connections can be closed with it.
 * The library does not do that: a socket that still connects, agrees on TLS or waits for the
 * server's settings when the channel is closed stays open for as long as the server wants it.
 */
class ClosableCredentials extends ChannelCredentials {
  readonly #inner: ChannelCredentials;
  readonly #sockets = new Set<Socket>();
  #isClosed = false;

  constructor(inner: ChannelCredentials) {
    super();
    this.#inner = inner;
  }

  /** Ends each later connection. Also destroys the present ones, which must not be in use. */
  close({ destroy }: { destroy: boolean }): void {
    this.#isClosed = true;
    if (destroy) for (const socket of this.#sockets) socket.destroy();
  }

  override _isSecure(): boolean {
    return this.#inner._isSecure();
  }

  override _equals(other: ChannelCredentials): boolean {
    return this === other;
  }

  override _createSecureConnector(
    target: experimental.GrpcUri,
    options: Parameters<ChannelCredentials["_createSecureConnector"]>[1],
    callCredentials?: CallCredentials,
  ): experimental.SecureConnector {
    const connector = this.#inner._createSecureConnector(target, options, callCredentials);
    return {
      connect: (socket) => this.#connect(connector, socket),
      waitForReady: () => connector.waitForReady(),
      getCallCredentials: () => connector.getCallCredentials(),
      destroy: () => connector.destroy(),
    };
  }

  /** Called with a socket that has just connected. The library destroys it if this rejects. */
  async #connect(connector: experimental.SecureConnector, socket: Socket) {
    if (this.#isClosed) throw new Error("The channel is closed.");
    socket.setKeepAlive(true, runBounds.backendSilenceMs);
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    return await connector.connect(socket);
  }
}

/**
 * A host that is an address is not named in the handshake (RFC 6066, section 3), but the library
 * always names one. So it gets a name that no host has (RFC 2606, section 2), and the certificate
 * must be one of the address.
 */
function credentialsOfAddress(address: string, roots: SecureContext): ChannelCredentials {
  return credentials.createFromSecureContext(roots, {
    checkServerIdentity: (_, certificate) => checkServerIdentity(address, certificate),
  });
}

const nameOfAddresses = "address.invalid";
