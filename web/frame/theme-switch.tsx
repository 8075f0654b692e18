import { useState } from "react";
import { Segments } from "../controls/segments.tsx";
import { chooseTheme, currentTheme, type Theme } from "./theme.ts";

const themes: readonly { value: Theme; words: string }[] = [
  { value: "system", words: "System" },
  { value: "light", words: "Light" },
  { value: "dark", words: "Dark" },
];

export function ThemeSwitch() {
  const [theme, setTheme] = useState(currentTheme);
  return (
    <fieldset className="theme-switch">
      <legend>Theme</legend>
      <Segments
        choices={themes}
        chosen={theme}
        onChoose={(value) => {
          chooseTheme(value);
          setTheme(value);
        }}
      />
    </fieldset>
  );
}
