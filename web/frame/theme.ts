/** Whether the screen follows the system, or is always light or dark. */
export type Theme = "system" | "light" | "dark";

/** The current theme. `before-paint.ts` has set it to the one that this browser stored. */
export function currentTheme(): Theme {
  const chosen = document.documentElement.dataset.theme;
  return chosen === "light" || chosen === "dark" ? chosen : "system";
}

/**
 * Changes the theme at once, and stores it in this browser. The screen stores nothing else there.
 */
export function chooseTheme(theme: Theme): void {
  if (theme === "system") {
    localStorage.removeItem("theme");
    delete document.documentElement.dataset.theme;
  } else {
    localStorage.setItem("theme", theme);
    document.documentElement.dataset.theme = theme;
  }
}
