// The least that streams a text in words as server-sent events, as Keyrun does for `echo`: it joins
// words that are there together, and writes no more than the caller reads. No key, no limit.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const joinedMax = 16 * 1024;

const server = createServer(async (req, res) => {
  let body = "";
  for await (const chunk of req.setEncoding("utf8")) body += chunk;
  res.writeHead(200, { "Content-Type": "text/event-stream" });
  let joined = "";
  const event = () => `data: ${JSON.stringify({ delta: { text: joined } })}\n\n`;
  for (const [word] of (JSON.parse(body).text as string).matchAll(/\S*\s+|\S+/g)) {
    joined += word;
    if (joined.length < joinedMax) continue;
    if (!res.write(event())) await once(res, "drain");
    joined = "";
  }
  res.end(`${event()}event: end\ndata: {}\n\n`);
});
server.listen(0, "127.0.0.1", () => console.log(`port ${(server.address() as AddressInfo).port}`));
