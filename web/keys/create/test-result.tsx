import { type ReactNode, useLayoutEffect, useRef } from "react";
import { Icon } from "../../controls/icon.tsx";
import type { TestAnswer } from "./send-test-request.ts";

/**
 * Says whether the key works, above the answer itself, and in the refusal's words what else failed.
 */
export function TestResult({ answer }: { answer: TestAnswer }) {
  const good = answer.status < 300;
  const place = useRef<HTMLDivElement>(null);
  // In a low window it would come behind the foot of the dialog.
  useLayoutEffect(() => {
    place.current?.scrollIntoView({ block: "nearest" });
  }, []);
  return (
    <div ref={place} className="answer">
      {(good || answer.keyWorks) && <Finding good>{good ? "It works" : "The key works"}</Finding>}
      {!good && (
        <Finding good={false}>
          <Problem words={answer.problem ?? "The request was refused."} />
        </Finding>
      )}
      <dl>
        <Fact name="Status">{answer.status}</Fact>
        {answer.rateLimit !== null && (
          <Fact name="RateLimit">
            <code>{answer.rateLimit}</code>
          </Fact>
        )}
        {good && answer.body !== "" && (
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

function Finding({ good, children }: { good: boolean; children: ReactNode }) {
  return (
    <p className={good ? "answer-words answer-good" : "answer-words answer-bad"}>
      <Icon name={good ? "check" : "warning"} />
      <span>{children}</span>
    </p>
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
function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}
