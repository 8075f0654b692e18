// The parts of undici that Keyrun needs. Its entry also loads fetch, caches, mocks and more: 14 MB
// of memory, and a third of the time of a start. Each test of src/run/ fails if a path changes.

declare module "undici/lib/dispatcher/client.js" {
  import { Client } from "undici";

  export = Client;
}

declare module "undici/lib/dispatcher/pool.js" {
  import { Pool } from "undici";

  export = Pool;
}

declare module "undici/lib/core/symbols.js" {
  /** A socket of a client has its parser under this name. */
  const kParser: unique symbol;

  interface Parser {
    /** The names and values of the head or trailer that is read, alternating. */
    readonly headers: readonly Buffer[];
    /** Called with a name, or a part of one. -1 ends the parsing. */
    onHeaderField(name: Buffer): number;
    onHeadersComplete(status: number, isUpgrade: boolean, isKept: boolean): number;
  }
}
