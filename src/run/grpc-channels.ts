import { type ChannelCredentials, Client, type ClientOptions, credentials } from "@grpc/grpc-js";
import { bounds } from "../config.ts";
import { trustedRoots } from "./trusted-roots.ts";

/** A channel on loan to one run. */
export interface LentChannel {
  readonly client: Client;
  /** Makes this the last run on the channel: who comes next gets a new connection. */
  retire(): void;
  /** To be called once, when the run is over. */
  giveBack(): void;
}

export interface GrpcChannels {
  /** The channel to the target, shared with the other runs there. It connects when it is first used. */
  lend(backend: { target: string; tls: boolean }): LentChannel;
  /** Closes all channels. None may be on loan. */
  close(): void;
}

/**
 * One channel for each target and kind of connection. Channels in use are bounded by the runs; of the unused ones
 * `idleChannelsMax` are kept, those used last, and their connections close after a while.
 */
export function createGrpcChannels(options: {
  outputBytesMax: number;
  idleChannelsMax: number;
}): GrpcChannels {
  const clientOptions = channelOptions(options.outputBytesMax);
  const securityOf = createSecurity();
  // The order of the map is the order of use: the first is the one used longest ago.
  const channels = new Map<string, Channel>();

  function closeUnused() {
    const unused = [...channels].filter(([, channel]) => channel.runs === 0);
    for (const [key, channel] of unused.slice(0, Math.max(0, unused.length - options.idleChannelsMax))) {
      channels.delete(key);
      channel.client.close();
    }
  }

  return {
    lend({ target, tls }) {
      const key = `${tls ? "tls" : "plaintext"} ${target}`;
      const channel = channels.get(key) ?? {
        client: connect(target, securityOf(tls), clientOptions),
        runs: 0,
      };
      channels.delete(key);
      channels.set(key, channel);
      channel.runs += 1;
      return {
        client: channel.client,
        retire() {
          if (channels.get(key) === channel) channels.delete(key);
        },
        giveBack() {
          channel.runs -= 1;
          if (channel.runs > 0) return;
          if (channels.get(key) !== channel) channel.client.close();
          else if (channels.size > options.idleChannelsMax) closeUnused();
        },
      };
    },
    close() {
      for (const channel of channels.values()) channel.client.close();
      channels.clear();
    },
  };
}

interface Channel {
  readonly client: Client;
  runs: number;
}

function createSecurity(): (tls: boolean) => ChannelCredentials {
  let overTls: ChannelCredentials | undefined;
  return (tls) => {
    if (!tls) return credentials.createInsecure();
    overTls ??= credentials.createFromSecureContext(trustedRoots());
    return overTls;
  };
}

function connect(target: string, security: ChannelCredentials, clientOptions: ClientOptions): Client {
  // The scheme is said aloud: without it, a host named "unix" or "ipv4" would be read as one.
  return new Client(`dns:${target}`, security, clientOptions);
}

function channelOptions(outputBytesMax: number): ClientOptions {
  return {
    // A run is never repeated: no retries of the library's own, none by a service config from the DNS either.
    "grpc.enable_retries": 0,
    "grpc.service_config_disable_resolution": 1,
    // Where a run goes is the app's record alone, not the environment's.
    "grpc.enable_http_proxy": 0,
    "grpc.max_receive_message_length": outputBytesMax + messageOverheadBytes,
    "grpc.client_idle_timeout_ms": bounds.backendChannelIdleMs,
    "grpc.initial_reconnect_backoff_ms": Math.min(100, bounds.backendReconnectMsMax),
    "grpc.max_reconnect_backoff_ms": bounds.backendReconnectMsMax,
    "grpc.dns_min_time_between_resolutions_ms": bounds.backendReconnectMsMax,
    // With a pool of its own, a closed channel takes its connection with it.
    "grpc.use_local_subchannel_pool": 1,
    "grpc.enable_channelz": 0,
  };
}

/** Tag and length of `RunResponse.text`: one byte, and a varint of at most five. */
const messageOverheadBytes = 6;
