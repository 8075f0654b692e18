import { useId } from "react";

interface SegmentsProps<Value extends string> {
  readonly choices: readonly { readonly value: Value; readonly words: string }[];
  readonly chosen: Value;
  onChoose(value: NoInfer<Value>): void;
}

/** Radio buttons that look like one switch. They stand in a fieldset, whose legend names them. */
export function Segments<Value extends string>({ choices, chosen, onChoose }: SegmentsProps<Value>) {
  const name = useId();
  return (
    <div className="segments">
      {choices.map(({ value, words }) => (
        <label key={value}>
          <input type="radio" name={name} checked={value === chosen} onChange={() => onChoose(value)} />
          <span>{words}</span>
        </label>
      ))}
    </div>
  );
}
