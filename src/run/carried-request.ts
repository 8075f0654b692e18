import type { Dispatcher } from "undici";

/** What a request needs of the connection that carries it. */
export interface Carrier {
  /** Ends the attempt to connect, if there is one. */
  giveUp(): void;
  /** Closes the connection if it has not taken everything that was written. */
  closeUnlessWritten(): void;
  /** Calls back once the system has taken everything that was written, if it ever does. */
  whenWritten(done: () => void): void;
  /** The error that ended the connection. Undefined while there is none. */
  readonly error: Error | undefined;
}

/** A request that is told which connection it got. undici itself does not say it. */
export abstract class CarriedRequest implements Dispatcher.DispatchHandler {
  /** Undefined while the request waits for a connection. */
  carrier: Carrier | undefined;

  abstract onRequestStart(controller: Dispatcher.DispatchController): void;
  abstract onResponseStart(
    ...head: Parameters<NonNullable<Dispatcher.DispatchHandler["onResponseStart"]>>
  ): void;
  abstract onResponseData(controller: Dispatcher.DispatchController, bytes: Buffer): void;
  abstract onResponseEnd(controller: Dispatcher.DispatchController): void;
  abstract onResponseError(controller: Dispatcher.DispatchController, error: Error): void;
}
