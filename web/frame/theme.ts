/** Whether the screen follows the system, or is always light or dark. */
export type Theme = "system" | "light" | "dark";

/** The theme in force, which `theme-at-start.ts` set from what was kept. */
export function currentTheme(): Theme {
  const chosen = document.documentElement.dataset.theme;
  return chosen === "light" || chosen === "dark" ? chosen : "system";
}

/** Changes the theme at once and keeps it for this browser: the only thing that the screen keeps. */
export function chooseTheme(theme: Theme): void {
  if (theme === "system") {
    localStorage.removeItem("theme");
    delete document.documentElement.dataset.theme;
  } else {
    localStorage.setItem("theme", theme);
    document.documentElement.dataset.theme = theme;
  }
}
