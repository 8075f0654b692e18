import { bounds } from "../../bounds.ts";
import { Icon } from "../../controls/icon.tsx";
import type { TestStream } from "./send-test-stream.ts";
import { Fact } from "./test-result.tsx";

const words: Record<TestStream["state"], string> = {
  open: "It works: the text comes",
  ended: "It works: the stream has ended",
  stopped: "You have stopped the stream",
  broken: "The stream broke off before its end.",
  failed: "The stream failed.",
};

/** The text of a stream as it comes, and how the stream stands. */
export function TestStreamResult({ stream }: { stream: TestStream }) {
  const { state, problem, pieces, cut, status, rateLimit } = stream;
  const good = state !== "broken" && state !== "failed";
  return (
    <div className="answer">
      <p role="status" className={good ? "answer-words answer-good" : "answer-words answer-bad"}>
        <Icon name={good ? "check" : "warning"} />
        <span>{problem ?? words[state]}</span>
      </p>
      <dl>
        <Fact name="Status">{status}</Fact>
        {rateLimit !== null && (
          <Fact name="RateLimit">
            <code>{rateLimit}</code>
          </Fact>
        )}
      </dl>
      {/* Each piece is a node of its own, so that a screen reader reads out what is new alone. */}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, also by keys. */}
      <div role="log" aria-label="Text of the stream" aria-live="polite" className="stream-text" tabIndex={0}>
        {pieces.map((piece, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a piece never changes its place.
          <span key={at}>{piece}</span>
        ))}
      </div>
      {cut && (
        <p className="muted">
          Only the first {bounds.shownAnswerCharactersMax.toLocaleString()} characters are shown.
        </p>
      )}
    </div>
  );
}
