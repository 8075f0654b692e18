/**
 * Keeps the requests that count in the running minute, from a clean stop to the next start. Several
 * instances may stop in one moment, so nothing replaces what it has not read. Throws as `KeyStore`
 * does.
 */
export interface WindowStore {
  /**
   * Keeps pages beside those that are kept: at most `savedPagesMax` of `savedPageCharactersMax`,
   * and `keptPagesMax` in all. A failure may leave some of them.
   */
  keep(pages: readonly string[]): Promise<void>;
  /** Returns all pages, those of one `keep` in their order; they stay. Empty where none is kept. */
  read(): Promise<KeptPage[]>;
  /** Removes these pages, as they were read, and no other. Those that are gone change nothing. */
  remove(pages: readonly KeptPage[]): Promise<void>;
}

export interface KeptPage {
  readonly number: number;
  /** Only its writer understands it. */
  readonly text: string;
}
