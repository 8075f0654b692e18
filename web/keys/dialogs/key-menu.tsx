import { type KeyboardEvent, useLayoutEffect, useRef } from "react";
import type { Key } from "../../api/messages.ts";
import { menuButtonId } from "../key-row.tsx";
import type { KeysPageState } from "../use-keys-page.ts";

/**
 * The menu of what can be done with a key, below the button that opened it, open for as long as it
 * is rendered. Its keys are those of the menu button pattern of WAI-ARIA.
 */
export function KeyMenu({ page, apiKey }: { page: KeysPageState; apiKey: Key }) {
  const menu = useRef<HTMLDivElement>(null);
  const opener = menuButtonId(apiKey.id);

  useLayoutEffect(() => {
    const shown = menu.current;
    const button = document.getElementById(opener);
    if (!shown || !button) return;
    const { bottom, right, top } = button.getBoundingClientRect();
    shown.showPopover();
    const { offsetHeight, offsetWidth } = shown;
    const below = bottom + 4 + offsetHeight <= document.documentElement.clientHeight;
    shown.style.top = `${below ? bottom + 4 : Math.max(4, top - 4 - offsetHeight)}px`;
    shown.style.left = `${Math.max(4, right - offsetWidth)}px`;
    button.setAttribute("aria-expanded", "true");
    shown.querySelector("button")?.focus();
    // The page scrolls away below it.
    const close = () => shown.hidePopover();
    window.addEventListener("scroll", close);
    return () => {
      window.removeEventListener("scroll", close);
      button.removeAttribute("aria-expanded");
    };
  }, [opener]);

  function move(event: KeyboardEvent<HTMLDivElement>) {
    const items = [...event.currentTarget.querySelectorAll("button")];
    const at = items.indexOf(document.activeElement as HTMLButtonElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (event.key === "Tab" || event.key === "Escape") {
      menu.current?.hidePopover();
      // At once: the browser tells later, and a press of Enter before that would open nothing.
      page.setMenu(null);
    }
    if (next === undefined) return;
    event.preventDefault();
    items.at(next % items.length)?.focus();
  }
  const actions = [
    { words: "Edit…", act: () => page.setDialog({ kind: "edit", key: apiKey, opener }) },
    ...(apiKey.replacedByKeyId
      ? []
      : [{ words: "Rotate…", act: () => page.setDialog({ kind: "rotate", key: apiKey, opener }) }]),
    { words: "Revoke…", act: () => page.openRevoke(apiKey) },
  ];

  return (
    <div
      ref={menu}
      popover="auto"
      role="menu"
      aria-labelledby={opener}
      className="key-menu"
      onKeyDown={move}
      // A click elsewhere closes it, also one on the button that opened it.
      onToggle={({ newState }) => {
        if (newState === "closed") page.setMenu(null);
      }}
    >
      {actions.map(({ words, act }) => (
        <button
          key={words}
          type="button"
          role="menuitem"
          tabIndex={-1}
          onClick={() => {
            page.setMenu(null);
            act();
          }}
        >
          {words}
        </button>
      ))}
    </div>
  );
}
