// The connections to gRPC apps. Below them is what the library lacks: to close a channel with its
// unfinished connections, and to read an answer at the cost of its bytes.

import type { ClientHttp2Stream } from "node:http2";
import { isIP, type Socket } from "node:net";
import {
  type CallCredentials,
  ChannelCredentials,
  Client,
  type ClientOptions,
  connectivityState,
  credentials,
  type experimental,
  Metadata,
} from "@grpc/grpc-js";
import subchannelCall from "@grpc/grpc-js/build/src/subchannel-call.js";
import {
  type HostLookup,
  hostLookupOption,
  hostScheme,
  registerHostScheme,
  trustedRoots,
} from "./host-lookup.ts";
import { runBounds } from "./run-bounds.ts";
import { ByteBuffer, type Memory } from "./stream/byte-buffer.ts";

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
  registerCollectingCalls();
  const clientOptions = channelOptions(outputBytesMax, hosts);
  let overTls: ChannelCredentials | undefined;
  // The map is in order of use: the first channel is the one used longest ago.
  const channels = new Map<string, Channel>();

  function credentialsOf(tls: boolean): ChannelCredentials {
    if (!tls) return credentials.createInsecure();
    overTls ??= credentials.createFromSecureContext(trustedRoots());
    return overTls;
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
      const channel = channels.get(key) ?? new Channel(target, credentialsOf(tls), clientOptions);
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
    nameNoAddress(connector);
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
 * The library names the host in the handshake also where it is an address, which RFC 6066 (3) does
 * not allow and Node 26 refuses. As its host, the address is still what the certificate must have.
 */
function nameNoAddress(connector: experimental.SecureConnector): void {
  const options: { servername?: string; host?: string } = Reflect.get(connector, "connectionOptions") ?? {};
  const { servername = "" } = options;
  if (isIP(servername) !== 0) Object.assign(options, { servername: "", host: servername });
}

/**
 * Makes gRPC's calls collect what comes into buffers. By itself the library keeps each DATA frame
 * of a message as an object until the message is whole, and so does Node while the call waits for
 * its reader: a frame of one byte then costs 120 to 250 bytes.
 */
function registerCollectingCalls(): void {
  Object.assign(subchannelCall, { Http2SubchannelCall: CollectingCall });
}

const { Http2SubchannelCall } = subchannelCall;

type CallParameters = ConstructorParameters<typeof Http2SubchannelCall>;

class CollectingCall extends Http2SubchannelCall {
  constructor(...[stream, tracker, listener, transport, id]: CallParameters) {
    super(stream, tracker, listener, transport, id);
    collectWhilePaused(stream);
    const bytesMax = transport.getOptions()["grpc.max_receive_message_length"] ?? defaultMessageBytesMax;
    const watch = watchIn(stream.sentHeaders);
    watch?.onStream(stream);
    const decoder = new MessageDecoder(bytesMax < 0 ? Number.POSITIVE_INFINITY : bytesMax, watch);
    Object.assign(this, { decoder });
  }
}

/** Counts the message of a call's answer that is not whole yet, and is told the call's stream. */
interface CallWatch extends Memory {
  /** Called before any byte is sent. */
  onStream(stream: ClientHttp2Stream): void;
}

/** The metadata of a call, and what watches it on its connection. */
export class WatchedMetadata extends Metadata {
  readonly watch: CallWatch;

  constructor(watch: CallWatch) {
    super();
    this.watch = watch;
  }

  /** The library gives its own copies to the connection. */
  override clone(): Metadata {
    const cloned = new WatchedMetadata(this.watch);
    cloned.setOptions(this.getOptions());
    cloned.merge(this);
    return cloned;
  }

  override toHttp2Headers() {
    return Object.assign(super.toHttp2Headers(), { [watched]: this });
  }
}

/** HTTP/2 sends no header that is named by a symbol. */
const watched = Symbol("watched");

function watchIn(headers: object = {}): CallWatch | undefined {
  const metadata: unknown = Reflect.get(headers, watched);
  return metadata instanceof WatchedMetadata ? metadata.watch : undefined;
}

/** The library's own default. */
const defaultMessageBytesMax = 4 * 1024 * 1024;

/**
 * Holds what comes while the stream is paused in one buffer, and out of the stream. That is at most
 * a window of flow control, 64 KiB: a paused stream opens none.
 */
function collectWhilePaused(stream: ClientHttp2Stream): void {
  const late = new ByteBuffer(Number.POSITIVE_INFINITY, "");
  const push = stream.push.bind(stream);
  const pushLate = () => {
    if (!late.isEmpty) push(late.take());
  };
  stream.push = (bytes) => {
    if (bytes === null) pushLate();
    if (bytes === null || (late.isEmpty && !stream.isPaused())) return push(bytes);
    late.append(bytes);
    return false;
  };
  // Node calls this later than `resume`, and the stream may be paused again by then.
  stream.on("resume", () => {
    if (!stream.isPaused()) pushLate();
  });
}

/** Cuts the bytes of an answer into messages, each with its prefix: a flag and its length. */
class MessageDecoder {
  readonly #bytesMax: number;
  readonly #memory: Memory | undefined;
  readonly #prefix = Buffer.alloc(prefixBytes);
  #prefixLength = 0;
  #message: ByteBuffer | undefined;
  /** What is missing of the message. */
  #bytesLeft = 0;

  constructor(bytesMax: number, memory: Memory | undefined) {
    this.#bytesMax = bytesMax;
    this.#memory = memory;
  }

  /** Throws at a message of more than `bytesMax` bytes, or one that there is no room for. */
  write(bytes: Buffer): Buffer[] {
    const messages: Buffer[] = [];
    for (let at = 0; at < bytes.byteLength; ) {
      at += this.#message ? this.#readMessage(this.#message, bytes, at) : this.#readPrefix(bytes, at);
      if (this.#message && this.#bytesLeft === 0) {
        messages.push(this.#message.take());
        this.#message = undefined;
      }
    }
    return messages;
  }

  /** Returns how many bytes it read. */
  #readPrefix(bytes: Buffer, from: number): number {
    const read = bytes.copy(this.#prefix, this.#prefixLength, from);
    this.#prefixLength += read;
    if (this.#prefixLength < prefixBytes) return read;
    this.#prefixLength = 0;
    this.#bytesLeft = this.#prefix.readUInt32BE(1);
    if (this.#bytesLeft > this.#bytesMax) {
      throw new Error(`Received message larger than max (${this.#bytesLeft} vs ${this.#bytesMax})`);
    }
    this.#message = new ByteBuffer(prefixBytes + this.#bytesLeft, "", this.#memory);
    this.#message.append(this.#prefix);
    return read;
  }

  #readMessage(message: ByteBuffer, bytes: Buffer, from: number): number {
    const part = bytes.subarray(from, from + this.#bytesLeft);
    message.append(part);
    this.#bytesLeft -= part.byteLength;
    return part.byteLength;
  }
}

const prefixBytes = 5;
