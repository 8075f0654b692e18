import { Segments } from "../controls/segments.tsx";
import type { Call } from "./snippet.ts";

const calls: readonly { value: Call; words: string; does: string }[] = [
  { value: "run", words: "Run", does: "The text comes as a whole." },
  { value: "stream", words: "Stream", does: "The text comes as the app writes it." },
];

/** The choice between the two calls that run an app. */
export function CallChoice({ call, onChoose }: { call: Call; onChoose(call: Call): void }) {
  return (
    <fieldset className="call-choice">
      <legend className="visually-hidden">Call</legend>
      <Segments choices={calls} chosen={call} onChoose={onChoose} />
      <span className="muted small">{calls.find(({ value }) => value === call)?.does}</span>
    </fieldset>
  );
}
