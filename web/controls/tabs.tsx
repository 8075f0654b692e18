import { type KeyboardEvent, type ReactNode, useId, useRef } from "react";

interface TabsProps<Name extends string> {
  /** What the tabs choose between, for screen readers. */
  readonly label: string;
  readonly tabs: readonly { readonly name: Name; readonly words: string }[];
  readonly chosen: Name;
  onChoose(name: NoInfer<Name>): void;
  /** Shown at the end of the row of tabs. */
  readonly aside: ReactNode;
  readonly children: ReactNode;
}

/**
 * Tabs as in the ARIA Authoring Practices: one stop for the Tab key; arrows, Home and End choose.
 */
export function Tabs<Name extends string>({
  label,
  tabs,
  chosen,
  onChoose,
  aside,
  children,
}: TabsProps<Name>) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);

  function onKeyDown(event: KeyboardEvent) {
    const at = tabs.findIndex((tab) => tab.name === chosen);
    const target = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key];
    const next = target === undefined ? undefined : tabs.at(target % tabs.length);
    if (next === undefined) return;
    event.preventDefault();
    onChoose(next.name);
    list.current?.querySelector<HTMLElement>(`[data-tab="${next.name}"]`)?.focus();
  }

  return (
    <div className="tabs">
      <div className="tabs-head">
        <div role="tablist" aria-label={label} ref={list} onKeyDown={onKeyDown} tabIndex={-1}>
          {tabs.map((tab) => (
            <button
              key={tab.name}
              type="button"
              role="tab"
              id={`${id}-${tab.name}`}
              data-tab={tab.name}
              aria-selected={tab.name === chosen}
              aria-controls={`${id}-panel`}
              tabIndex={tab.name === chosen ? 0 : -1}
              onClick={() => onChoose(tab.name)}
            >
              {tab.words}
            </button>
          ))}
        </div>
        <div className="tabs-aside">{aside}</div>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, also by keys. */}
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${chosen}`} tabIndex={0}>
        {children}
      </div>
    </div>
  );
}
