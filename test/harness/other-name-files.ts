// Loaded before Keyrun, with `--import`: gives it the file that KEYRUN_TEST_RESOLV_CONF names in
// place of /etc/resolv.conf, and leaves a timer behind that would keep the process alive for ever.
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";

const other = process.env.KEYRUN_TEST_RESOLV_CONF ?? "";
const { openSync, statSync } = fs;

function replaced<Path>(path: Path): Path | string {
  return path === "/etc/resolv.conf" ? other : path;
}

fs.openSync = (path, ...rest) => openSync(replaced(path), ...rest);
Object.assign(fs, {
  statSync: (path: fs.PathLike, options?: fs.StatSyncOptions) => statSync(replaced(path), options),
});
syncBuiltinESMExports();
setInterval(() => {}, 1_000);
