/**
 * Takes the body of an HTTP app's answer apart into the texts of its messages, whatever the chunks
 * are in which the bytes arrive. It decodes only what it is asked for, so that what a slow reader
 * has not taken yet waits as bytes.
 */
export interface PieceDecoder {
  /** Gives it the next bytes. It keeps them, but copies what must outlive the next call. */
  feed(bytes: Buffer): void;
  /**
   * The text of the next message. An empty text is a sign of life, like a comment. Undefined where
   * it needs more bytes. Throws APP_FAILED where the bytes are not what the app may answer.
   */
  next(): string | undefined;
  /**
   * The body has ended, and `next` has returned undefined: the text of a last message that the end
   * completes. Throws APP_FAILED where the body ends within a message.
   */
  end(): string | undefined;
}
