/**
 * An app behind HTTP that streams: it answers in capitals, one word at a time. Start it, tell
 * Keyrun where it is, and watch the words come:
 *
 *     node examples/streaming-app.ts
 *     ./keyrun apps create speak --backend http --url http://127.0.0.1:9002/run
 *     curl -N http://127.0.0.1:8080/api/apps/speak/stream \
 *       -H "Authorization: Bearer $KEYRUN_API_KEY" -H "Content-Type: application/json" \
 *       -d '{"text":"hello, how are you?"}'
 *
 * A run of the same app, with `/run` in place of `/stream`, gives the whole text.
 */
import { createServer } from "node:http";
import { json } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { setTimeout as pause } from "node:timers/promises";

const server = createServer(async (request, response) => {
  if (request.method !== "POST" || request.url !== "/run") {
    response.writeHead(404).end();
    return;
  }
  try {
    // Keyrun sends {"runId", "teamId", "appId", "keyId", "text"}.
    const run = (await json(request)) as { text: string };
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    // Writes no faster than the caller reads, and stops when the caller leaves. If the app throws,
    // the connection is closed in the middle, which tells Keyrun that the text is not whole.
    await pipeline(speak(run.text), events, response);
  } catch (error) {
    console.error(`The run ${request.headers["x-request-id"]} failed:`, error);
    if (!response.headersSent) response.writeHead(500).end();
  }
});

/** Each piece of text as a server-sent event: `data: {"text": "…"}` and an empty line. */
async function* events(pieces: AsyncIterable<string>) {
  for await (const text of pieces) yield `data: ${JSON.stringify({ text })}\n\n`;
}

/** Your app goes here. */
async function* speak(text: string): AsyncGenerator<string> {
  for (const word of text.toUpperCase().match(/\s*\S+\s*/g) ?? []) {
    yield word;
    await pause(100);
  }
}

server.listen(Number(process.env.PORT ?? 9002), "127.0.0.1", () => {
  const address = server.address();
  if (address !== null && typeof address === "object") {
    console.log(`The app listens on http://127.0.0.1:${address.port}/run`);
  }
});
