/**
 * Messages of which many may be there at once, and which then differ in nothing but a short text.
 * To encode them together costs a hundredth of what each costs alone.
 */
export interface ShortTexts<Message> extends AsyncIterable<Message> {
  /**
   * Takes the text of the next message, if that is there already and its text is short: 1 to
   * `shortTextMax` UTF-16 code units, well-formed. Undefined if not, and where others wait for
   * their turn: the next message then comes by iteration. Call it only while nobody waits for one.
   */
  takeShortText(): string | undefined;
  /** The message with this text. */
  withText(text: string): Message;
}

export const shortTextMax = 256;

export function hasShortTexts<Message>(messages: AsyncIterable<unknown>): messages is ShortTexts<Message> {
  return "takeShortText" in messages;
}
