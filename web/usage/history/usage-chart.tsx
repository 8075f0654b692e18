import { type PointerEvent, useState } from "react";
import { wholeNumber } from "../../time/local-format.ts";
import { stepInWords, tickInWords } from "./step-words.ts";
import { numbersInWords, scaleMax, type UsageNumbers } from "./usage-numbers.ts";
import type { UsageSpan } from "./usage-span.ts";

interface UsageChartProps {
  /** The steps in the order of time; none while they are loading. */
  readonly steps: readonly UsageNumbers[];
  readonly span: UsageSpan;
  /** The words above the bars, unless the pointer is at one. */
  readonly total: string;
}

const barWidth = 10;
const height = 100;
const parts = ["answered", "failed", "limited"] as const;

/**
 * Bars of the requests of each step. The table below has the same numbers for those who can't see
 * or point at them.
 */
export function UsageChart({ steps, span, total }: UsageChartProps) {
  const [pointed, setPointed] = useState<number | null>(null);
  const at = pointed === null ? undefined : steps[pointed];
  const max = scaleMax(steps);
  const count = Math.max(steps.length, 1);
  function point({ clientX, currentTarget }: PointerEvent<SVGSVGElement>) {
    const { left, width } = currentTarget.getBoundingClientRect();
    setPointed(Math.min(Math.floor(((clientX - left) / width) * count), count - 1));
  }
  return (
    <figure className="chart">
      <figcaption>{at ? `${stepInWords(at.startMs, span)}: ${numbersInWords(at)}` : total}</figcaption>
      <div className="chart-plot">
        <div className="chart-scale" aria-hidden="true">
          <span>{wholeNumber(max)}</span>
          <span>{wholeNumber(max / 2)}</span>
          <span>0</span>
        </div>
        <svg
          viewBox={`0 0 ${count * barWidth} ${height}`}
          preserveAspectRatio="none"
          aria-hidden="true"
          focusable="false"
          onPointerMove={point}
          onPointerDown={point}
          onPointerLeave={() => setPointed(null)}
        >
          {steps.map((step, index) => (
            <Bar key={step.startMs} {...{ step, index, max }} pointed={index === pointed} />
          ))}
        </svg>
      </div>
      <div className="chart-ticks" aria-hidden="true">
        {ends(steps).map(({ startMs }) => (
          <span key={startMs}>{tickInWords(startMs, span)}</span>
        ))}
      </div>
      <ul className="chart-legend" aria-hidden="true">
        <li data-part="answered">Answered</li>
        <li data-part="failed">Failed by the app</li>
        <li data-part="limited">Refused by the limit</li>
      </ul>
    </figure>
  );
}

/** The first step, the middle and the last, which are named below the bars. */
function ends(steps: readonly UsageNumbers[]): UsageNumbers[] {
  const places = [0, Math.floor(steps.length / 2), steps.length - 1];
  return steps.filter((_, index) => places.includes(index));
}

interface BarProps {
  readonly step: UsageNumbers;
  readonly index: number;
  readonly max: number;
  readonly pointed: boolean;
}

function Bar({ step, index, max, pointed }: BarProps) {
  let top = height;
  return (
    <>
      {/* The whole height, so that a step without requests can be pointed at. */}
      <rect
        className={pointed ? "bar-place pointed" : "bar-place"}
        x={index * barWidth}
        width={barWidth}
        height={height}
      />
      {parts.map((part) => {
        const size = (step[part] / max) * height;
        top -= size;
        return (
          size > 0 && (
            <rect
              key={part}
              data-part={part}
              x={index * barWidth + 1}
              y={top}
              width={barWidth - 2}
              height={size}
            />
          )
        );
      })}
    </>
  );
}
