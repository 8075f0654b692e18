// The health check of the image, which has no curl: asks the server of these settings for
// `/healthz`, and ends with status 0 if it answers. `/readyz` would be wrong here: a supervisor
// may kill what is unhealthy, and a Keyrun that only waits for its store must live on.
import { get } from "node:http";

const timeoutMs = 4_000;

const { KEYRUN_HOST: host = "127.0.0.1", KEYRUN_PORT: port = "8080" } = process.env;
// A server that listens on every address is asked on the loopback of IPv4, which `::` takes, too.
const asked = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
const signal = AbortSignal.timeout(timeoutMs);

get({ host: asked, port, path: "/healthz", signal }, ({ statusCode }) => {
  if (statusCode !== 200) fail(`answers ${statusCode}`);
  process.exit(0);
}).on("error", ({ code }) => fail(`does not answer (${code})`));

function fail(why) {
  console.error(`Keyrun is not healthy: ${asked} port ${port} ${why}.`);
  process.exit(1);
}
