import { wholeNumber } from "../../time/local-format.ts";
import { stepInWords } from "./step-words.ts";
import { requestsOf, type UsageNumbers } from "./usage-numbers.ts";
import { type UsageSpan, usageSpans } from "./usage-span.ts";

interface UsageTableProps {
  readonly steps: readonly UsageNumbers[];
  readonly span: UsageSpan;
}

/** The numbers of the chart, the newest step first. */
export function UsageTable({ steps, span }: UsageTableProps) {
  const caption = `Requests in the last ${usageSpans[span].words}`;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, also by keys.
    <section className="numbers-scroll" aria-label={caption} tabIndex={0}>
      <table>
        <caption className="visually-hidden">{caption}</caption>
        <thead>
          <tr>
            <th scope="col">{span === "day" ? "Hour" : "Day (UTC)"}</th>
            <th scope="col">Requests</th>
            <th scope="col">Failed</th>
            <th scope="col">Refused</th>
            <th scope="col">Mean time</th>
          </tr>
        </thead>
        <tbody>
          {steps.toReversed().map((step) => (
            <tr key={step.startMs}>
              <th scope="row">{stepInWords(step.startMs, span)}</th>
              <td>{wholeNumber(requestsOf(step))}</td>
              <td>{wholeNumber(step.failed)}</td>
              <td>{wholeNumber(step.limited)}</td>
              <td>{step.meanMs === null ? "–" : `${wholeNumber(Math.ceil(step.meanMs))} ms`}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
