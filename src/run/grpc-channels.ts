import {
  type ChannelCredentials,
  Client,
  type ClientOptions,
  connectivityState,
  credentials,
} from "@grpc/grpc-js";
import { ClosableCredentials } from "./closable-credentials.ts";
import { registerCollectingCalls } from "./collecting-call.ts";
import { hostLookupOption, hostScheme, registerHostScheme } from "./grpc-host-resolver.ts";
import type { HostLookup } from "./host-lookup.ts";
import { runBounds } from "./run-bounds.ts";
import { trustedRoots } from "./trusted-roots.ts";

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

export interface GrpcChannels {
  /**
   * Returns the channel to the target, shared with other runs. It connects when it is first used.
   */
  acquire(backend: { target: string; tls: boolean }): ChannelLease;
  /** Closes all channels. Call it only when none is in use. */
  close(): void;
}

/**
 * Keeps one gRPC channel for each target and kind of connection. The bound on runs also bounds the
 * channels in use. Of the unused ones, the `idleChannelsMax` used last are kept, and gRPC closes
 * their connections when they have been idle for some time.
 */
export function createGrpcChannels(options: {
  outputBytesMax: number;
  hosts: HostLookup;
  idleChannelsMax: number;
}): GrpcChannels {
  registerHostScheme();
  registerCollectingCalls();
  const clientOptions = channelOptions(options);
  const securityOf = createSecurity();
  // The map is in order of use: the first channel is the one used longest ago.
  const channels = new Map<string, Channel>();

  function closeUnused() {
    const unused = [...channels].filter(([, channel]) => channel.runs === 0);
    for (const [key, channel] of unused.slice(0, Math.max(0, unused.length - options.idleChannelsMax))) {
      channels.delete(key);
      close(channel);
    }
  }

  return {
    acquire({ target, tls }) {
      const key = `${tls ? "tls" : "plaintext"} ${target}`;
      const channel = channels.get(key) ?? open(target, securityOf(tls), clientOptions);
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
          if (channels.get(key) !== channel) close(channel);
          else if (channels.size > options.idleChannelsMax) closeUnused();
        },
      };
    },
    close() {
      for (const channel of channels.values()) close(channel);
      channels.clear();
    },
  };
}

interface Channel {
  readonly client: Client;
  readonly security: ClosableCredentials;
  runs: number;
  connections: number;
}

function open(target: string, credentials: ChannelCredentials, clientOptions: ClientOptions): Channel {
  const security = new ClosableCredentials(credentials);
  // The scheme must be written. Otherwise a host named "unix" or "ipv4" would be read as a scheme.
  const client = new Client(`${hostScheme}:${target}`, security, clientOptions);
  const channel = { client, security, runs: 0, connections: 0 };
  countConnections(channel);
  return channel;
}

function close({ client, security }: Channel): void {
  const isReady = client.getChannel().getConnectivityState(false) === connectivityState.READY;
  client.close();
  security.close({ destroy: !isReady });
}

/** Waits for the next state of the channel, again and again until it is closed. */
function countConnections(channel: Channel): void {
  const { client } = channel;
  const state = client.getChannel().getConnectivityState(false);
  if (state === connectivityState.SHUTDOWN) return;
  if (state === connectivityState.READY) channel.connections += 1;
  client
    .getChannel()
    .watchConnectivityState(state, Number.POSITIVE_INFINITY, () => countConnections(channel));
}

function createSecurity(): (tls: boolean) => ChannelCredentials {
  let overTls: ChannelCredentials | undefined;
  return (tls) => {
    if (!tls) return credentials.createInsecure();
    overTls ??= credentials.createFromSecureContext(trustedRoots());
    return overTls;
  };
}

function channelOptions(options: { outputBytesMax: number; hosts: HostLookup }): ClientOptions {
  return {
    [hostLookupOption]: options.hosts,
    // A run is never repeated.
    "grpc.enable_retries": 0,
    // Only the app's record decides where a run goes, so proxies from the environment are ignored.
    "grpc.enable_http_proxy": 0,
    "grpc.max_receive_message_length": options.outputBytesMax + messageOverheadBytes,
    "grpc.client_idle_timeout_ms": runBounds.backendChannelIdleMs,
    "grpc.initial_reconnect_backoff_ms": Math.min(100, runBounds.backendReconnectMsMax),
    "grpc.max_reconnect_backoff_ms": runBounds.backendReconnectMsMax,
    // Without the global pool, closing a channel also closes its connection.
    "grpc.use_local_subchannel_pool": 1,
    "grpc.enable_channelz": 0,
  };
}

/** Tag and length of `RunResponse.text`: one byte, and a varint of at most five. */
const messageOverheadBytes = 6;
