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
