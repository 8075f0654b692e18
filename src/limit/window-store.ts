/**
 * Keeps the requests that count in the running minute, from a clean stop to the next start. Each
 * page is a text that only its writer understands. Throws as `KeyStore` does.
 */
export interface WindowStore {
  /**
   * Replaces what is kept. In order, at most `savedPagesMax` pages of `savedPageCharactersMax`; a
   * failure may leave some of them, or none.
   */
  keep(pages: readonly string[]): Promise<void>;
  /** Returns the pages in their order, and forgets them. Empty where nothing is kept. */
  take(): Promise<string[]>;
}
