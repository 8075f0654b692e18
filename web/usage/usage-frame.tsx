import type { ReactNode } from "react";

interface UsageFrameProps {
  /** Each part is a skeleton of the same height while it is missing. */
  readonly plan?: ReactNode;
  readonly used?: ReactNode;
  readonly meter?: ReactNode;
  /** Only where the plan has a quota. */
  readonly quota?: ReactNode;
}

/** The card of plan and usage, with what is known so far. Nothing moves when more is known. */
export function UsageFrame({ plan, used, meter, quota }: UsageFrameProps) {
  return (
    <section className="card usage" aria-labelledby="usage-title">
      <h2 id="usage-title" className="visually-hidden">
        Plan and usage
      </h2>
      <div>
        <p className="usage-plan">{plan || <span className="skeleton-line" />}</p>
        <p className="usage-used">{used || <span className="skeleton-line" />}</p>
      </div>
      {meter || <div className="meter-place" />}
      {quota}
    </section>
  );
}
