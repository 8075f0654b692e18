import { status as grpcStatus } from "@grpc/grpc-js";
import type { AppRecord } from "../apps/app-store.ts";
import { mediaTypeOf } from "./http-exchange.ts";
import { runBounds } from "./run-bounds.ts";
import type { AnswerWatch } from "./runner.ts";
import { isStreamType } from "./stream/piece-decoder.ts";

type Headers = Parameters<AnswerWatch["onHead"]>[1];

/**
 * What an app was sent and has answered in a check: the status, and over HTTP the head and how both
 * bodies begin.
 */
export class SeenAnswer implements AnswerWatch {
  #status: number | undefined;
  #headers: Headers | undefined;
  #sent = "";
  #bytes: Buffer = Buffer.alloc(0);
  #isCut = false;

  onSent(body: string): void {
    const max = runBounds.appRefusalBytesMax;
    this.#sent = body.length > max ? withoutLastWord(body.slice(0, max)) : body;
  }

  answered(status: number): void {
    this.#status = status;
  }

  onHead(_: number, headers: Headers): void {
    this.#headers = headers;
  }

  onBytes(bytes: Buffer): void {
    const room = runBounds.appRefusalBytesMax - this.#bytes.length;
    this.#isCut ||= bytes.length > room;
    if (room > 0) this.#bytes = Buffer.concat([this.#bytes, bytes.subarray(0, room)]);
  }

  /** The status of HTTP; undefined where there is none. */
  get httpStatus(): number | undefined {
    return this.#headers && this.#status;
  }

  get body(): Buffer {
    return this.#bytes;
  }

  /** Whether it came in one of the forms of a stream. */
  get isStream(): boolean {
    return isStreamType(this.#headers?.["content-type"]);
  }

  /** Where a redirect leads; empty where it says nothing. */
  get location(): string {
    return String(this.#headers?.location ?? "");
  }

  /** The methods that the app allows; empty where it says nothing. */
  get allow(): string {
    return String(this.#headers?.allow ?? "");
  }

  /** The answer in the form of a `CheckAppResponse`, with every word of the app's cleaned. */
  facts({ backend }: AppRecord, clean: (words: string) => string) {
    const code = this.#status ?? -1;
    const ofGrpc = `${code} ${grpcStatus[code]}`;
    return {
      status: this.#status === undefined ? "" : backend.kind === "grpc" ? ofGrpc : String(code),
      mediaType: this.#headers ? mediaTypeOf(this.#headers) : "",
      body: clean(this.#text()),
      sent: clean(this.#sent),
    };
  }

  #text(): string {
    const text = this.#bytes.toString();
    return this.#isCut ? withoutLastWord(text) : text;
  }
}

/** Of a text that was cut, the last word may be half a secret, which nothing would find. */
function withoutLastWord(text: string): string {
  return text.slice(0, text.search(/\s\S*$/) + 1);
}
