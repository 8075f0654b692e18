import { spawnServer } from "../child-server.ts";
import { goProgram } from "../go-program.ts";
import { randomKey } from "../key-and-limit.ts";
import { announce, appPlace } from "../subject.ts";

// Go's httputil.ReverseProxy with a key, an exact log and the headers of a limit: bench/go/proxy.
const program = goProgram("proxy");
if (program) {
  // As many as Keyrun gets: each may send 100,000 requests a minute.
  const apiKeys = Array.from({ length: 8 }, randomKey);
  const { pid, match, stop } = await spawnServer([program, appPlace, ...apiKeys], /^\d+$/);
  announce({ port: Number(match[0]), apiKeys, pid }, stop);
} else {
  announce({ missing: "Go is not installed" });
}
