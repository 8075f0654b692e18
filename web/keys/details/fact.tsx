import type { ReactNode } from "react";
import { timeUntil } from "../../time/relative-time.ts";
import { Ago } from "../ago.tsx";
import { ExactTime } from "../exact-time.tsx";

export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

interface WhenProps {
  readonly time: string | undefined;
  readonly by?: string | undefined;
  /** True for a time that is still to come. */
  readonly ahead?: boolean;
}

/** The exact time, how long ago that was, and by whom. */
export function When({ time, by, ahead }: WhenProps) {
  return (
    <>
      {time && (
        <>
          <ExactTime time={time} />{" "}
          <span className="muted">
            (<Ago time={time} {...(ahead && { inWords: timeUntil })} />)
          </span>
        </>
      )}
      {by && (
        <span className="fact-by muted">
          by <bdi>{by}</bdi>
        </span>
      )}
    </>
  );
}
