// The least that streams a text word by word as server-sent events, as Keyrun does for `echo`: some
// words are written together, and no more than the caller reads. No key, no limit, no routes.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const joinedMax = 14 * 1024;

const server = createServer(async (req, res) => {
  let body = "";
  for await (const chunk of req.setEncoding("utf8")) body += chunk;
  res.writeHead(200, { "Content-Type": "text/event-stream" });
  let joined = "";
  for (const [word] of (JSON.parse(body).text as string).matchAll(/\S*\s+|\S+/g)) {
    joined += `data: ${JSON.stringify({ delta: { text: word } })}\n\n`;
    if (joined.length < joinedMax) continue;
    if (!res.write(joined)) await once(res, "drain");
    joined = "";
  }
  res.end(`${joined}event: end\ndata: {}\n\n`);
});
server.listen(0, "127.0.0.1", () => console.log(`port ${(server.address() as AddressInfo).port}`));
