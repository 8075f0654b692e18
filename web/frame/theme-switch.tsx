import { useState } from "react";
import { chooseTheme, currentTheme, type Theme } from "./theme.ts";

const themes: readonly { value: Theme; words: string }[] = [
  { value: "system", words: "System" },
  { value: "light", words: "Light" },
  { value: "dark", words: "Dark" },
];

/** Three radio buttons that look like one switch. */
export function ThemeSwitch() {
  const [theme, setTheme] = useState(currentTheme);
  return (
    <fieldset className="theme-switch">
      <legend>Theme</legend>
      <div className="segments">
        {themes.map(({ value, words }) => (
          <label key={value}>
            <input
              type="radio"
              name="theme"
              checked={theme === value}
              onChange={() => {
                chooseTheme(value);
                setTheme(value);
              }}
            />
            <span>{words}</span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}
