import { bounds } from "../bounds.ts";

/** The whole of a label below a title that may cut it off; nothing where it fits the title. */
export function WholeLabel({ label = "" }: { label: string | undefined }) {
  if ([...label].length <= bounds.titleLabelCodePoints) return null;
  return (
    <p className="whole-label">
      <bdi>{label}</bdi>
    </p>
  );
}
