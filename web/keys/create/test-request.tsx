import { useState } from "react";
import { useServices } from "../../services.tsx";
import { useTicking } from "../../time/ticker.ts";
import { useUsageRefresh } from "../../usage/use-usage.ts";
import { useKeyListWriter } from "../use-key-list.ts";
import { sendTestRequest, type TestAnswer } from "./send-test-request.ts";
import { TestResult } from "./test-result.tsx";

interface TestRequestProps {
  readonly appId: string;
  readonly value: string;
  readonly teamId: string;
}

/** Runs the app with the new key, and shows the answer that a program would get. */
export function TestRequest({ appId, value, teamId }: TestRequestProps) {
  const [answer, setAnswer] = useState<TestAnswer | "pending" | "none" | null>(null);
  const [retry, setRetry] = useState<Retry | null>(null);
  const { ticker } = useServices();
  const refreshUsage = useUsageRefresh(teamId);
  const writer = useKeyListWriter(teamId);

  const result = answer !== null && typeof answer === "object" ? answer : null;

  async function send() {
    if (answer === "pending") return;
    setAnswer("pending");
    setRetry(null);
    const received = await sendTestRequest(fetch, { appId, value });
    setAnswer(received ?? "none");
    const waitS = received?.retryAfterS;
    if (waitS) setRetry({ waitS, atMs: ticker.readMs() + waitS * 1_000 });
    refreshUsage();
    void writer.refresh();
  }

  return (
    <div className="test-request">
      <div className="test-request-head">
        <button
          type="button"
          className="button button-small"
          aria-disabled={answer === "pending"}
          onClick={send}
        >
          {answer === "pending" ? "Sending…" : "Send a test request"}
        </button>
        <span className="muted small">
          Runs <code>{appId}</code> and uses one request of the team’s limit.
        </span>
      </div>
      <div role="status">
        {answer === "none" && <p className="field-problem">Keyrun can’t be reached. Try again.</p>}
        {result !== null && <TestResult answer={result} />}
      </div>
      {retry !== null && <RetryWait {...retry} />}
    </div>
  );
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
