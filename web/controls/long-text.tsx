import { useState } from "react";
import { bounds } from "../bounds.ts";

/** A text in one line. A press shows all of a long one, and cuts it off again. */
export function LongText({ text }: { text: string }) {
  const [whole, setWhole] = useState(false);
  if ([...text].length <= bounds.titleLabelCodePoints) return <bdi className="muted">{text}</bdi>;
  return (
    <button type="button" className="long-text" aria-expanded={whole} onClick={() => setWhole(!whole)}>
      <bdi>{text}</bdi>
    </button>
  );
}
