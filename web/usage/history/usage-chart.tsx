import { type KeyboardEvent, type PointerEvent, useState } from "react";
import { wholeNumber } from "../../time/local-format.ts";
import { stepInWords, tickInWords } from "./step-words.ts";
import { numbersInWords, scaleMax, type UsageNumbers } from "./usage-numbers.ts";
import type { UsageSpan } from "./usage-span.ts";

interface UsageChartProps {
  /** The steps in the order of time; none while they are loading. */
  readonly steps: readonly UsageNumbers[];
  readonly span: UsageSpan;
  /** The words above the bars, unless the pointer or the keyboard is at one. */
  readonly total: string;
}

const barWidth = 10;
const height = 100;
const parts = ["answered", "failed", "limited"] as const;

/**
 * Bars of the requests of each step. The keyboard goes from one to the next as on a slider, so that
 * a screen reader passes it the arrow keys, and says where it is. The table below has all numbers.
 */
export function UsageChart({ steps, span, total }: UsageChartProps) {
  const [hovered, setHovered] = useState<number | null>(null);
  const [focused, setFocused] = useState(false);
  /** Where the keyboard is. By time, so that it stays there when a step is added. */
  const [focusMs, setFocusMs] = useState(0);
  const max = scaleMax(steps);
  const count = Math.max(steps.length, 1);
  const found = steps.findIndex((step) => step.startMs === focusMs);
  const place = found < 0 ? count - 1 : found;
  const pointed = hovered ?? (focused ? place : null);
  const at = pointed === null ? undefined : steps[pointed];
  const words = (step: UsageNumbers | undefined) =>
    step && `${stepInWords(step.startMs, span)}: ${numbersInWords(step)}`;
  function point({ clientX, currentTarget }: PointerEvent<HTMLElement>) {
    const { left, width } = currentTarget.getBoundingClientRect();
    setHovered(Math.min(Math.floor(((clientX - left) / width) * count), count - 1));
  }
  function move(event: KeyboardEvent) {
    const to = placeAfter(event, place, count - 1);
    if (to === null) return;
    event.preventDefault();
    setFocusMs(steps[to]?.startMs ?? 0);
    setHovered(null);
  }
  return (
    <figure className="chart">
      <figcaption>{words(at) ?? total}</figcaption>
      <div className="chart-plot">
        <div className="chart-scale" aria-hidden="true">
          <span>{wholeNumber(max)}</span>
          <span>{wholeNumber(max / 2)}</span>
          <span>0</span>
        </div>
        <div
          className="chart-bars"
          role="slider"
          tabIndex={0}
          aria-label={`Requests of each ${span === "day" ? "hour" : "day"}`}
          aria-valuemin={0}
          aria-valuemax={count - 1}
          aria-valuenow={place}
          aria-valuetext={words(steps[place])}
          onKeyDown={move}
          onFocus={() => setFocused(true)}
          onBlur={() => setFocused(false)}
          onPointerMove={point}
          onPointerDown={point}
          onPointerLeave={() => setHovered(null)}
        >
          <svg
            viewBox={`0 0 ${count * barWidth} ${height}`}
            preserveAspectRatio="none"
            aria-hidden="true"
            focusable="false"
          >
            {steps.map((step, index) => (
              <Bar key={step.startMs} {...{ step, index, max }} pointed={index === pointed} />
            ))}
          </svg>
        </div>
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

/** Where a key leads from a place; null if it leads nowhere. */
function placeAfter(event: KeyboardEvent, place: number, last: number): number | null {
  // With one of these, the keys are the browser's: Alt and an arrow go back in its history.
  if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return null;
  switch (event.key) {
    case "ArrowLeft":
    case "ArrowDown":
      return Math.max(place - 1, 0);
    case "ArrowRight":
    case "ArrowUp":
      return Math.min(place + 1, last);
    case "Home":
      return 0;
    case "End":
      return last;
    default:
      return null;
  }
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
