import { useEffect, useRef, useState } from "react";
import { useServices } from "../../services.tsx";
import { useTicking } from "../../time/ticker.ts";
import { useUsageRefresh } from "../../usage/use-usage.ts";
import { useKeyListWriter } from "../use-key-list.ts";
import { sendTestRequest, type TestAnswer } from "./send-test-request.ts";
import { TestResult } from "./test-result.tsx";

interface TestRequestProps {
  readonly appId: string;
  readonly isGuard: boolean;
  readonly value: string;
  readonly teamId: string;
}

/** Runs the app with the new key, or asks its guard, and shows the answer of a program. */
export function TestRequest({ appId, isGuard, value, teamId }: TestRequestProps) {
  const [answer, setAnswer] = useState<TestAnswer | "none" | null>(null);
  const [pending, setPending] = useState(false);
  const [retry, setRetry] = useState<Retry | null>(null);
  const { ticker } = useServices();
  const refreshUsage = useUsageRefresh(teamId);
  const writer = useKeyListWriter(teamId);
  const leaving = useRef<AbortController>(null);
  useEffect(() => () => leaving.current?.abort(), []);

  async function send() {
    setPending(true);
    setAnswer(null);
    setRetry(null);
    leaving.current = new AbortController();
    const received = await sendTestRequest(fetch, { appId, isGuard, value }, leaving.current.signal);
    setPending(false);
    setAnswer(received ?? "none");
    const waitS = received?.retryAfterS ?? null;
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
          aria-disabled={pending}
          onClick={() => {
            if (!pending) void send();
          }}
        >
          {pending ? "Sending…" : "Send a test request"}
        </button>
        <span className="muted small">
          {isGuard ? "Asks the guard of" : "Runs"} <code>{appId}</code> and uses one request of the team’s
          limit.
        </span>
      </div>
      <div role="status">
        {answer === "none" && <p className="field-problem">Keyrun can’t be reached. Try again.</p>}
        {answer !== null && answer !== "none" && <TestResult answer={answer} />}
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
