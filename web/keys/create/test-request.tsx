import { useEffect, useRef, useState } from "react";
import { useServices } from "../../services.tsx";
import { useTicking } from "../../time/ticker.ts";
import type { Call } from "../../try-it/snippet.ts";
import { useUsageRefresh } from "../../usage/use-usage.ts";
import { useKeyListWriter } from "../use-key-list.ts";
import { sendTestRequest, type TestAnswer } from "./send-test-request.ts";
import { sendTestStream, type TestStream } from "./send-test-stream.ts";
import { TestResult } from "./test-result.tsx";
import { TestStreamResult } from "./test-stream-result.tsx";

interface TestRequestProps {
  readonly appId: string;
  readonly call: Call;
  readonly value: string;
  readonly teamId: string;
}

/** Runs the app with the new key, and shows the answer that a program would get. */
export function TestRequest({ appId, call, value, teamId }: TestRequestProps) {
  const [answer, setAnswer] = useState<TestAnswer | TestStream | "none" | "stopped" | null>(null);
  const [pending, setPending] = useState<Call | null>(null);
  const [retry, setRetry] = useState<Retry | null>(null);
  const { ticker } = useServices();
  const refreshUsage = useUsageRefresh(teamId);
  const writer = useKeyListWriter(teamId);
  const stop = useRef<AbortController>(null);
  useEffect(() => () => stop.current?.abort(), []);

  async function send() {
    setPending(call);
    setAnswer(null);
    setRetry(null);
    stop.current = new AbortController();
    const { signal } = stop.current;
    const run = { appId, value };
    const received =
      call === "run"
        ? await sendTestRequest(fetch, run, signal)
        : await sendTestStream(fetch, run, { signal, onChange: setAnswer });
    setPending(null);
    setAnswer(received ?? (signal.aborted ? "stopped" : "none"));
    const waitS = received !== null && "retryAfterS" in received ? received.retryAfterS : null;
    if (waitS !== null) setRetry({ waitS, atMs: ticker.readMs() + waitS * 1_000 });
    refreshUsage();
    void writer.refresh();
  }

  return (
    <div className="test-request">
      <div className="test-request-head">
        <button
          type="button"
          className="button button-small"
          aria-disabled={pending === "run"}
          onClick={({ detail }) => {
            if (pending === null) void send();
            // The second click of a double click does not stop what the first has begun.
            else if (pending === "stream" && detail < 2) stop.current?.abort();
          }}
        >
          {pending === null ? "Send a test request" : pending === "run" ? "Sending…" : "Stop"}
        </button>
        <span className="muted small">
          Runs <code>{appId}</code> and uses one request of the team’s limit.
        </span>
      </div>
      <div role="status">
        {answer === "none" && <p className="field-problem">Keyrun can’t be reached. Try again.</p>}
        {answer === "stopped" && <p className="muted small">Stopped before an answer came.</p>}
        {isObject(answer) && !("pieces" in answer) && <TestResult answer={answer} />}
      </div>
      {isObject(answer) && "pieces" in answer && <TestStreamResult stream={answer} />}
      {retry !== null && <RetryWait {...retry} />}
    </div>
  );
}

function isObject<T>(answer: T | string | null): answer is T {
  return typeof answer === "object" && answer !== null;
}

/** When the same request may succeed, and how long that is from its answer. */
interface Retry {
  readonly atMs: number;
  readonly waitS: number;
}

/** Counts down to when the request may succeed. No live region, because it would chatter. */
function RetryWait({ atMs, waitS }: Retry) {
  const { ticker } = useServices();
  const words = useTicking(ticker, (nowMs) => {
    // The last tick is up to a second ago.
    const seconds = Math.min(Math.ceil((atMs - nowMs) / 1_000), waitS);
    return seconds > 0 ? `You can try again in ${seconds} s` : "You can try again now";
  });
  return <p className="retry-wait">{words}</p>;
}
