import type { Socket } from "node:net";
import { type CallCredentials, ChannelCredentials, type experimental } from "@grpc/grpc-js";

/**
 * Wraps the credentials of one channel, so that its unfinished connections can be closed with it.
 * The library does not do that: a socket that still connects, agrees on TLS or waits for the
 * server's settings when the channel is closed stays open for as long as the server wants it.
 */
export class ClosableCredentials extends ChannelCredentials {
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
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    return await connector.connect(socket);
  }
}
