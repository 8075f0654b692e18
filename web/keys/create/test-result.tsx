import type { ReactNode } from "react";
import { Icon } from "../../controls/icon.tsx";
import type { TestAnswer } from "./send-test-request.ts";

/** Says whether the key works, or in the refusal's words why not, above the answer itself. */
export function TestResult({ answer }: { answer: TestAnswer }) {
  const good = answer.status < 300;
  return (
    <div className="answer">
      <p className={good ? "answer-words answer-good" : "answer-words answer-bad"}>
        <Icon name={good ? "check" : "warning"} />
        <span>{good ? "It works" : <Problem words={answer.problem ?? "The request was refused."} />}</span>
      </p>
      <dl>
        <Fact name="Status">{answer.status}</Fact>
        {answer.rateLimit !== null && (
          <Fact name="RateLimit">
            <code>{answer.rateLimit}</code>
          </Fact>
        )}
        {good && (
          <Fact name="Body">
            <code>{answer.body}</code>
          </Fact>
        )}
      </dl>
      {/* The words above say the same for people. */}
      {!good && (
        <details>
          <summary>
            <Icon name="chevron" />
            Body
          </summary>
          <code>{answer.body}</code>
        </details>
      )}
    </div>
  );
}

/**
 * The refusal's words. Only screen readers need the wait in them: the countdown is not read out.
 */
function Problem({ words }: { words: string }) {
  const [, problem, wait] = /^(.*?)( Try again in \d+ s\.)?$/s.exec(words) ?? [];
  return (
    <>
      {problem}
      {wait !== undefined && <span className="visually-hidden">{wait}</span>}
    </>
  );
}

/** A name and its value in a list of them. */
export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}
