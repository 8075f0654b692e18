import { useState } from "react";
import { useUsageRefresh } from "../../usage/use-usage.ts";
import { useKeyListWriter } from "../use-key-list.ts";
import { sendTestRequest, type TestAnswer } from "./send-test-request.ts";

interface TestRequestProps {
  readonly appId: string;
  readonly value: string;
  readonly teamId: string;
}

/** Runs the app with the new key, and shows the answer that a program would get. */
export function TestRequest({ appId, value, teamId }: TestRequestProps) {
  const [answer, setAnswer] = useState<TestAnswer | "pending" | "none" | null>(null);
  const refreshUsage = useUsageRefresh(teamId);
  const writer = useKeyListWriter(teamId);

  async function send() {
    if (answer === "pending") return;
    setAnswer("pending");
    setAnswer((await sendTestRequest(fetch, { appId, value })) ?? "none");
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
        {answer !== null && typeof answer === "object" && <Answer answer={answer} />}
      </div>
    </div>
  );
}

function Answer({ answer }: { answer: TestAnswer }) {
  return (
    <dl className="answer">
      <dt>Status</dt>
      <dd className={answer.status < 300 ? "answer-good" : "answer-bad"}>{answer.status}</dd>
      {answer.rateLimit !== null && (
        <>
          <dt>RateLimit</dt>
          <dd>
            <code>{answer.rateLimit}</code>
          </dd>
        </>
      )}
      <dt>Body</dt>
      <dd>
        <code>{answer.body}</code>
      </dd>
    </dl>
  );
}
