import type { KeyUsage } from "../../api/messages.ts";
import { wholeNumber } from "../../time/local-format.ts";
import { requestCount } from "../usage-words.ts";

const height = 18;
/** Half of the line's width, so that neither its top nor its foot is cut off. */
const edge = 1;
/** A scale that ends sooner would show two requests like a storm. */
const scaleMaxMin = 4;

/** The requests of a key in each of the last days, as a small line, and their number in words. */
export function UsageLine({ usage }: { usage: KeyUsage }) {
  const { acceptedCounts = [], limitedCounts = [] } = usage;
  const counts = acceptedCounts.map((accepted, day) => Number(accepted) + Number(limitedCounts[day] ?? 0));
  const all = counts.reduce((sum, count) => sum + count, 0);
  const words = `${requestCount(all)} in ${counts.length} days, ${wholeNumber(counts.at(-1) ?? 0)} today`;
  const max = Math.max(scaleMaxMin, ...counts);
  const points = counts.map((count, day) => `${day},${height - edge - (count / max) * (height - 2 * edge)}`);
  return (
    <>
      <span className="visually-hidden">{words}</span>
      <svg viewBox={`0 0 ${counts.length - 1} ${height}`} preserveAspectRatio="none" aria-hidden="true">
        <title>{words}</title>
        {/* From below its left edge to below its right one, so that the space under it is filled. */}
        <polyline points={`-1,${height * 2} ${points.join(" ")} ${counts.length},${height * 2}`} />
      </svg>
    </>
  );
}
