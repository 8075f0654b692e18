import type { IncomingMessage, ServerResponse } from "node:http";
import { expect } from "vitest";

/**
 * Small stand-ins for services with formats of their own, each after the page that its comment
 * names. Every one says "Hello there." to the text "hello", refuses "refuse" as the service does,
 * and where it streams breaks off half-way with "break".
 */
export interface StandIn {
  /** Where it is called, and the header that has its key. */
  readonly path: string;
  readonly header: string;
  /** What it must be sent for this text. */
  sent(text: string, isStreamed: boolean): unknown;
  /** The text in what it was sent. */
  textIn(body: unknown): string;
  /** Answers a text that it takes; streams where it was asked to. */
  answer(response: ServerResponse, text: string, isStreamed: boolean): void;
  /** Its answer to "refuse", with the words that callers get. */
  readonly refusal: { readonly status: number; readonly body: object; readonly words?: string };
  /** Its answer to a wrong key. */
  readonly unauthorized: { readonly status: number; readonly body: object };
  /** Whether it streams if it is asked to; false: it answers whole. */
  readonly streams: boolean;
}

export const words = ["Hello", " there", "."];
const whole = words.join("");

export const standIns: Readonly<Record<string, StandIn>> = {
  /** https://platform.openai.com/docs/api-reference/chat/create, and its page of streaming. */
  chat: {
    path: "/v1/chat/completions",
    header: "authorization: Bearer service-key-1",
    sent: (text, stream) => ({
      model: "llama3.2",
      messages: [{ role: "user", content: text }],
      stream,
    }),
    textIn: (body) => (body as { messages: { content: string }[] }).messages.at(-1)!.content,
    answer(response, text, isStreamed) {
      const facts = { id: "chatcmpl-1", created: 1_694_268_190, model: "llama3.2" };
      if (!isStreamed) {
        const message = { role: "assistant", content: whole, refusal: null };
        const choices = [{ index: 0, message, logprobs: null, finish_reason: "stop" }];
        json(response, 200, { ...facts, object: "chat.completion", choices, usage: {} });
        return;
      }
      const chunk = (delta: object, finish: string | null = null) => ({
        ...facts,
        object: "chat.completion.chunk",
        choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
      });
      const error = { message: "The server had an error", type: "server_error", param: null, code: null };
      events(response, [
        chunk({ role: "assistant", content: "" }),
        ...words.map((content) => chunk({ content })),
        ...(text === "break" ? [{ error }] : [chunk({}, "stop"), { ...chunk({}), choices: [], usage: {} }]),
        "[DONE]",
      ]);
    },
    refusal: {
      status: 400,
      body: {
        error: { message: "Invalid value.", type: "invalid_request_error", param: "messages", code: null },
      },
      words: "Invalid value.",
    },
    unauthorized: {
      status: 401,
      body: { error: { message: "Incorrect API key provided", code: "invalid_api_key" } },
    },
    streams: true,
  },

  /** The page of API access in Dify: web/app/components/develop/template/template_chat.en.mdx. */
  dify: {
    path: "/v1/chat-messages",
    header: "authorization: Bearer service-key-1",
    sent: (query) => ({ inputs: {}, query, response_mode: "streaming", user: "dify" }),
    textIn: (body) => (body as { query: string }).query,
    answer(response, text) {
      const facts = { task_id: "t", message_id: "m", conversation_id: "c", created_at: 1_679_586_595 };
      response.setHeader("content-type", "text/event-stream; charset=utf-8").write("event: ping\n\n");
      const failed = { event: "error", status: 400, code: "completion_request_error", message: "No." };
      events(response, [
        { event: "agent_thought", thought: "hm", ...facts },
        ...words.map((answer) => ({ event: "message", ...facts, answer })),
        text === "break" ? { ...facts, ...failed } : { event: "message_end", ...facts, metadata: {} },
      ]);
    },
    refusal: {
      status: 400,
      body: { code: "invalid_param", message: "query is required", status: 400 },
      words: "query is required",
    },
    unauthorized: {
      status: 401,
      body: { code: "unauthorized", message: "Access token is invalid", status: 401 },
    },
    streams: true,
  },

  /** https://docs.langflow.org/api-flows-run */
  langflow: {
    path: "/api/v1/run/FLOW_ID",
    header: "x-api-key: service-key-1",
    sent: (text) => ({
      input_value: text,
      input_type: "chat",
      output_type: "chat",
      session_id: expect.stringMatching(/^run_/),
    }),
    textIn: (body) => (body as { input_value: string }).input_value,
    answer(response) {
      const results = { message: { text: whole, sender: "Machine", sender_name: "AI" } };
      const outputs = [{ results, artifacts: {}, outputs: {}, messages: [] }];
      json(response, 200, { session_id: "s", outputs: [{ inputs: {}, outputs }] });
    },
    refusal: { status: 400, body: { detail: "No chat input." }, words: "No chat input." },
    unauthorized: { status: 403, body: { detail: "Invalid or missing API key" } },
    streams: false,
  },

  /** https://docs.flowiseai.com/using-flowise/prediction, and its page of streaming. */
  flowise: {
    path: "/api/v1/prediction/FLOW_ID",
    header: "authorization: Bearer service-key-1",
    sent: (question, streaming) => ({ question, streaming }),
    textIn: (body) => (body as { question: string }).question,
    answer(response, text, isStreamed) {
      const facts = { question: text, chatId: "c", chatMessageId: "m", sessionId: "c" };
      if (!isStreamed) {
        json(response, 200, { text: whole, ...facts });
        return;
      }
      response.setHeader("content-type", "text/event-stream");
      const end = { event: "end", data: "[DONE]" };
      const messages = [
        { event: "start", data: words[0] },
        ...words.map((data) => ({ event: "token", data })),
        ...(text === "break"
          ? [{ event: "error", data: "It failed" }]
          : [{ event: "metadata", data: facts }]),
        end,
      ];
      for (const message of messages) response.write(`message:\ndata:${JSON.stringify(message)}\n\n`);
      response.end();
    },
    refusal: {
      status: 422,
      body: { statusCode: 422, success: false, message: "Validation failed", stack: {} },
      words: "Validation failed",
    },
    unauthorized: { status: 401, body: { error: "Unauthorized Access" } },
    streams: true,
  },

  /** https://docs.n8n.io/integrations/builtin/core-nodes/n8n-nodes-base.webhook */
  n8n: {
    path: "/webhook/ask",
    header: "x-api-key: service-key-1",
    sent: (chatInput) => ({ chatInput, sessionId: expect.stringMatching(/^run_/) }),
    textIn: (body) => (body as { chatInput: string }).chatInput,
    answer: (response) => json(response, 200, { output: whole }),
    // By the option Response Code of its node Respond to Webhook.
    refusal: { status: 422, body: { message: "Ask about orders." }, words: "Ask about orders." },
    unauthorized: { status: 403, body: { message: "Authorization data is wrong!" } },
    streams: false,
  },

  /** No service: any webhook that takes JSON and answers JSON. */
  joke: {
    path: "/webhook/joke",
    header: "accept: application/json",
    sent: (topic) => ({ topic }),
    textIn: (body) => (body as { topic: string }).topic,
    answer: (response) => json(response, 200, { joke: whole }),
    refusal: { status: 400, body: { ok: false } },
    unauthorized: { status: 401, body: {} },
    streams: false,
  },
};

/** Answers one request as the service does. */
export async function answerAs(
  standIn: StandIn,
  { request, body, response }: { request: IncomingMessage; body: string; response: ServerResponse },
): Promise<void> {
  const [name = "", value = ""] = standIn.header.split(": ");
  if (!request.headers[name]?.includes(value)) {
    json(response, standIn.unauthorized.status, standIn.unauthorized.body);
    return;
  }
  const text = standIn.textIn(JSON.parse(body));
  if (text === "refuse") json(response, standIn.refusal.status, standIn.refusal.body);
  else standIn.answer(response, text, body.includes('"stream":true') || body.includes('"streaming":true'));
}

function json(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json; charset=utf-8" });
  response.end(JSON.stringify(body));
}

function events(response: ServerResponse, messages: readonly (object | string)[]): void {
  if (!response.headersSent) response.setHeader("content-type", "text/event-stream; charset=utf-8");
  for (const message of messages) {
    response.write(`data: ${typeof message === "string" ? message : JSON.stringify(message)}\n\n`);
  }
  response.end();
}
