import { useState } from "react";
import { failureOf } from "../../api/failure.ts";
import { FailureNote } from "../../controls/failure-note.tsx";
import { Icon } from "../../controls/icon.tsx";
import { Retry } from "../../controls/list-buttons.tsx";
import { Segments } from "../../controls/segments.tsx";
import { UsageChart } from "./usage-chart.tsx";
import { numbersInWords, type UsageNumbers, usageNumbers, usageSum } from "./usage-numbers.ts";
import { spanOf, type UsageSpan, usageSpans } from "./usage-span.ts";
import { UsageTable } from "./usage-table.tsx";
import { useUsageHistory } from "./use-usage-history.ts";

/** The card of a team's usage over the last hours or days: a chart, and the same as a table. */
export function UsageHistory({ teamId }: { teamId: string }) {
  const [span, setSpan] = useState<UsageSpan>("day");
  const usage = useUsageHistory(teamId, span);
  const steps = usage.data?.points?.map(usageNumbers) ?? [];
  return (
    <>
      <div className="chart-head">
        <h2 id="usage-history-title">Requests</h2>
        <fieldset>
          <legend className="visually-hidden">Time</legend>
          <Segments
            choices={(["day", "month"] as const).map((value) => ({ value, words: usageSpans[value].words }))}
            chosen={span}
            onChoose={setSpan}
          />
        </fieldset>
      </div>
      {usage.isError && steps.length === 0 ? (
        <FailureNote failure={failureOf(usage.error)} action={<Retry read={usage} />}>
          Couldn’t load the usage. Requests are counted all the same.
        </FailureNote>
      ) : (
        // The steps of the other span stay until those of this one come.
        <History steps={steps} span={spanOf(steps, span)} />
      )}
    </>
  );
}

function History({ steps, span }: { steps: readonly UsageNumbers[]; span: UsageSpan }) {
  return (
    <>
      <UsageChart
        steps={steps}
        span={span}
        total={
          steps.length === 0 ? "" : `${numbersInWords(usageSum(steps))} in the last ${usageSpans[span].words}`
        }
      />
      <details className="chart-numbers">
        <summary>
          <Icon name="chevron" />
          Show the numbers
        </summary>
        <UsageTable steps={steps} span={span} />
      </details>
    </>
  );
}
